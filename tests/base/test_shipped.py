from __future__ import annotations

from pathlib import Path

import pytest

from lab.base import shipped
from lab.base.errors import UserError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of an installation with three experiments."""
    package = tmp_path / "site" / "lab"
    for name in ("add", "plain/add", "plain/sum", "others/sum", "others/scan"):
        file = package / "shipped" / "experiments" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setattr(shipped, "_PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    return package


def test_folders_lie_beside_the_package_in_a_clone_and_inside_of_an_installed_one(package: Path, root: Path) -> None:
    assert shipped.folder("experiments") == package / "shipped" / "experiments"
    assert not shipped.in_clone()
    shipped._PACKAGE = root / "lab"
    assert shipped.folder("experiments") == root / "experiments"
    assert shipped.in_clone()


@pytest.mark.parametrize(("name", "file"), [("add", "add"), ("plain/add", "plain/add"), ("scan", "others/scan")])
def test_a_name_stands_for_a_shipped_experiment(package: Path, name: str, file: str) -> None:
    assert shipped.experiment(Path(name)) == package / "shipped" / "experiments" / f"{file}.yaml"


@pytest.mark.parametrize("name", ["add", "scan.yaml", "folder"])
def test_a_path_is_taken_as_it_is(package: Path, name: str) -> None:
    Path("add").touch()
    Path("folder").mkdir()
    assert shipped.experiment(Path(name)) == Path(name)


def test_another_name_is_refused_with_those_there_are(package: Path) -> None:
    with pytest.raises(UserError, match="unknown experiment") as error:
        shipped.experiment(Path("scam"))
    assert error.value.suggestion == "did you mean 'scan'?"
    assert "add, others/scan, others/sum, plain/add, plain/sum" in str(error.value.accepted)
    with pytest.raises(UserError, match="several") as error:
        shipped.experiment(Path("sum"))
    assert error.value.accepted == ["others/sum", "plain/sum"]
