from __future__ import annotations

import json
from dataclasses import replace

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.library.grid import Loss
from lab.library.package import (
    Library,
    LibraryBuffer,
    LibraryKernel,
    LibraryLaunch,
    LibraryMap,
    TimesKind,
    from_json,
    to_json,
)
from lab.library.tree import Logic

LAUNCH = LibraryLaunch(
    "gemm", ("m", "1", "1"), ("32", "1", "1"), "0", (("m", "int32"), ("A", "float32*"), ("part", "float32*"))
)
KERNEL = LibraryKernel(
    "k", "k.cubin", "gemm/t.cu.j2", {"unroll": 4}, (LAUNCH,), (LibraryBuffer("part", "float32", "m * n", zero=True),)
)
LIBRARY = Library(
    "sgemm",
    "float32",
    "nn",
    "sm_90",
    TimesKind.MEASURED,
    "measured on a GPU",
    (KERNEL,),
    Logic(("k",), ~0),
    Loss(0.0, 0.0, (1, 1, 1), 1),
)


def test_a_library_survives_its_json() -> None:
    assert from_json(to_json(LIBRARY)) == LIBRARY


def test_another_version_is_refused_and_not_misread() -> None:
    data = json.loads(to_json(LIBRARY)) | {"schema": 1}
    with pytest.raises(UserError, check=coded("version", key="schema", found=1)) as error:
        from_json(json.dumps(data), "old.json")
    assert (error.value.found, error.value.key) == (1, "schema")
    assert str(error.value.at) == "old.json"


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense"])
def test_text_that_is_no_library_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not a library"):
        from_json(text)


def test_an_unknown_key_is_refused() -> None:
    data = json.loads(to_json(LIBRARY)) | {"extra": 1}
    with pytest.raises(UserError, check=coded("syntax", key="extra")) as error:
        from_json(json.dumps(data))
    assert error.value.key == "extra"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"name": "s gemm"}, "name"),
        ({"arch": "sm-90"}, "arch"),
        ({"logic": Logic(("other",), ~0)}, "kernels"),
        ({"kernels": (replace(KERNEL, cubin="../k.cubin"),)}, "kernels[0].cubin"),
        ({"kernels": (replace(KERNEL, launches=()),)}, "kernels[0].launches"),
        ({"kernels": (replace(KERNEL, launches=(replace(LAUNCH, entry="a b"),)),)}, "kernels[0].launches.entry"),
        ({"kernels": (replace(KERNEL, workspace=(LibraryBuffer("m", "float32", "1"),)),)}, "kernels[0].workspace"),
        ({"kernels": (replace(KERNEL, workspace=()),)}, "kernels[0].launches"),
    ],
)
def test_what_cannot_become_files_and_c_is_refused(change: dict[str, object], key: str) -> None:
    with pytest.raises(UserError) as error:
        replace(LIBRARY, **change)  # type: ignore[arg-type]
    assert error.value.key == key


@pytest.mark.parametrize("argument", [("q", "int32"), ("A", "float64*"), ("A", "float32"), ("a_map", "tensor_map")])
def test_an_argument_that_a_library_lacks_is_refused(argument: tuple[str, str]) -> None:
    kernel = replace(KERNEL, launches=(replace(LAUNCH, arguments=(argument,)),))
    with pytest.raises(UserError) as error:
        replace(LIBRARY, kernels=(kernel,))
    assert error.value.found == f"{argument[1]} {argument[0]}"


def test_a_kernel_declares_its_launches_and_buffers() -> None:
    (launch,) = replace(KERNEL, launches=(replace(LAUNCH, when="m > 1"),)).declared
    assert (launch.entry, list(launch.grid), [condition.expression for condition in launch.conditions]) == (
        "gemm",
        ["m", "1", "1"],
        ["m > 1"],
    )
    assert [(buffer.name, buffer.zero) for buffer in KERNEL.buffers] == [("part", True)]
    assert KERNEL.declared[0].conditions == ()


def mapped(**changes: object) -> LibraryKernel:
    one = LibraryMap("a_map", "part", "float32", ("m", "k"), "lda", (32, 8))
    launch = replace(LAUNCH, arguments=(("a_map", "tensor_map"),), grid=("resident_blocks", "1", "1"))
    kernel = replace(KERNEL, launches=(launch,), tensor_maps=(replace(one, **changes),))  # type: ignore[arg-type]
    return replace(kernel, requires="lda % 4 == 0")


GENERAL = replace(LIBRARY, kernels=(mapped(), replace(KERNEL, name="other")), logic=Logic(("k", "other"), ~0),
                  general=Logic(("k", "other"), ~1))  # fmt: skip


def test_maps_and_requirements_survive_the_json() -> None:
    assert from_json(to_json(GENERAL)) == GENERAL


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"name": "m"}, "kernels[0].tensor_maps[0].name"),
        ({"of": "D"}, "kernels[0].tensor_maps[0].of"),
        ({"dtype": "float64"}, "kernels[0].tensor_maps[0].of"),
        ({"box": (3, 8)}, "kernels[0].tensor_maps[0].box"),
        ({"box": (512, 8)}, "kernels[0].tensor_maps[0].box"),
        ({"swizzle": 48}, "kernels[0].tensor_maps[0].swizzle"),
        ({"swizzle": 64}, "kernels[0].tensor_maps[0].box"),
        ({"leading": "alpha"}, "kernels[0].tensor_maps[0].leading"),
        ({"extents": ("m", "resident_blocks")}, "kernels[0].tensor_maps[0].extents[1]"),
        ({"name": "other_map"}, "kernels[0].launches"),
    ],
)
def test_a_map_that_cannot_be_made_is_refused(changes: dict[str, object], key: str) -> None:
    with pytest.raises(UserError) as error:
        replace(GENERAL, kernels=(mapped(**changes), GENERAL.kernels[1]))
    assert error.value.key == key


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"general": None}, "general"),
        ({"general": Logic(("k", "other"), ~0)}, "general"),
        ({"general": Logic(("other",), ~0)}, "general.kernels"),
        ({"kernels": (replace(mapped(), requires="beta == 0"), GENERAL.kernels[1])}, "kernels[0].requires"),
    ],
)
def test_without_a_kernel_that_takes_whatever_comes_a_library_is_refused(changes: dict[str, object], key: str) -> None:
    with pytest.raises(UserError) as error:
        replace(GENERAL, **changes)  # type: ignore[arg-type]
    assert error.value.key == key
