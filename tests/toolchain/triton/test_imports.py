from __future__ import annotations

import pytest

from lab.base.errors import UserError
from lab.toolchain.triton import imports
from lab.toolchain.triton.imports import gather_modules


@pytest.fixture
def tree(tmp_path):
    def write(**files):
        for name, text in files.items():
            path = tmp_path / (name.replace("__init__", "@").replace("__", "/").replace("@", "__init__") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def test_a_file_alone_keeps_its_name(tree):
    folder = tree(a__k="import math\nimport torch\n")
    found = gather_modules("import math\nimport torch\n", folder / "a" / "k.py", [folder])
    assert (found.path, found.texts) == ("k.py", {})


def test_modules_beside_a_file_and_theirs(tree):
    folder = tree(k="", tile="from more import x\n", more="x = 1\n", other="")
    found = gather_modules("try:\n    from tile import y\nexcept ImportError:\n    pass\n", folder / "k.py", [folder])
    assert found.path == "k.py"
    assert dict(found.texts) == {"tile.py": "from more import x\n", "more.py": "x = 1\n"}


def test_a_package_is_followed_upwards_and_its_init_is_read_only_where_it_is_asked_for(tree):
    folder = tree(
        pkg____init__="raise SystemExit",
        pkg__ops____init__="",
        pkg__ops__k="",
        pkg__ops__near="",
        pkg__util____init__="from .deep import exp\n",
        pkg__util__deep="",
    )
    text = "from .near import a\nfrom pkg.util import exp\nfrom pkg.absent import z\nfrom ..missing import q\n"
    found = gather_modules(text, folder / "pkg" / "ops" / "k.py", [folder / "pkg" / "ops"])
    assert found.path == "pkg/ops/k.py"
    assert set(found.texts) == {"pkg/ops/near.py", "pkg/util/__init__.py", "pkg/util/deep.py"}


def test_relative_imports_need_no_init(tree):
    folder = tree(kernels__ops__k="", kernels__common="")
    found = gather_modules("from ..common import x", folder / "kernels" / "ops" / "k.py", [])
    assert (found.path, set(found.texts)) == ("kernels/ops/k.py", {"kernels/common.py"})


def test_absolute_imports_may_start_where_the_experiment_lies(tree):
    folder = tree(src__k="", common__index="")
    found = gather_modules("from common import index", folder / "src" / "k.py", [folder])
    assert (found.path, set(found.texts)) == ("src/k.py", {"common/index.py"})


def test_a_link_out_of_the_tree_is_not_followed(tree, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.py"
    outside.write_text("x = 1")
    folder = tree(k="")
    (folder / "secret.py").symlink_to(outside)
    assert gather_modules("import secret", folder / "k.py", [folder]).texts == {}


def test_a_tree_that_is_too_large_is_refused(tree, monkeypatch):
    monkeypatch.setattr(imports, "MOST_FILES", 2)
    folder = tree(k="", a="import b", b="import c", c="")
    with pytest.raises(UserError) as caught:
        gather_modules("import a", folder / "k.py", [folder])
    assert "2 modules" in str(caught.value.accepted)
