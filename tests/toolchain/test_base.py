from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.executor import WorkerLostError
from lab.toolchain.base import Resources, can_target, check_not_killed, first_error, is_version, warnings_in

LISTED = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100a", "sm_100f", "sm_120f"])
def test_targets_with_and_without_suffix(arch: str) -> None:
    assert can_target(arch, LISTED)


@pytest.mark.parametrize(
    "arch", ["sm_70", "sm_80a", "sm_90f", "sm_91", "sm_91a", "compute_90", "90", "sm_90b", "sm_", "", "sm_90 "]
)
def test_what_is_no_target(arch: str) -> None:
    assert not can_target(arch, LISTED)


@pytest.mark.parametrize(
    ("arch", "version", "can"),
    [
        ("sm_90", "11.8.89", True),
        ("sm_90a", "11.8.89", False),
        ("sm_90a", "12.0.76", True),
        ("sm_100f", "12.8.93", False),
        ("sm_100f", "12.9.86", True),
        ("sm_100f", "", True),
    ],
)
def test_suffixes_came_with_a_release(arch: str, version: str, can: bool) -> None:
    assert can_target(arch, LISTED, version) is can


def test_a_compiler_without_a_list_may_target_anything_that_exists() -> None:
    assert can_target("sm_50", ())
    assert not can_target("sm_50a", ())
    assert not can_target("native", ())


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("13.5.37", "", True),
        ("13.5.37", "13", True),
        ("13.5.37", "13.5", True),
        ("13.5.37", "13.5.37", True),
        ("13.5.37", "13.5.3", False),
        ("13.5.37", "1", False),
        ("13.5", "13.5.37", False),
    ],
)
def test_versions_match_by_whole_numbers(version: str, wanted: str, *, expected: bool) -> None:
    assert is_version(version, wanted) is expected


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("k.cu(1): warning: w\n  k.cu(2): error: e\nk.cu(3): error: f", "k.cu(2): error: e"),
        ("nvcc fatal   : Unsupported", "nvcc fatal   : Unsupported"),
        ("one\ntwo\n\n", "two"),
        ("terrors\nERROR: x", "ERROR: x"),
        ("", "the compiler failed without a message"),
        (" \n", "the compiler failed without a message"),
    ],
)
def test_the_line_that_names_the_error(log: str, line: str) -> None:
    assert first_error(log) == line


def test_warnings_are_kept_with_their_place_and_once() -> None:
    log = (
        "k.cu(6): warning #161-D: unrecognized #pragma\n  #pragma 4\n          ^\n\nRemark: The warnings can be ...\n\n"
        'k.cu(3): warning #177-D: variable "unused" was declared but never referenced\n'
        '/cuda/cccl/cuda/std/cstdint(75): warning #47-D: incompatible redefinition of macro "INT8_MIN" '
        "(declared at line 22 of /standard/stdint.h)\n"
        "a folder/k.cuh(12): warning: odd\nk.cu(6): warning #161-D: unrecognized #pragma\n"
        "ptxas warning : Stack size for entry function 'k' cannot be statically determined\n"
        "ptxas /tmp/x.ptx, line 12; warning : '.minnctapersm' will be ignored\n"
        "ptxas info    : (C7510) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum requirements.\n"
        "ptxas info    : Used 18 registers, used 0 barriers\nk.cu(7): error: e\n"
    )
    assert warnings_in(log) == (
        "k.cu(6): unrecognized #pragma",
        "a folder/k.cuh(12): odd",
        "ptxas: Stack size for entry function 'k' cannot be statically determined",
        "ptxas: '.minnctapersm' will be ignored",
        "ptxas: Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum requirements.",
    )


def test_warnings_about_kernels_that_are_not_launched_are_counted() -> None:
    log = "".join(f"k.cu({line}): warning #1-D: odd\n" for line in (2, 3, 5, 6)) + "own.h(5): warning: odd\n"
    told = "2 warnings about kernels of the file that are not launched; see build.log"
    assert warnings_in(log, [("k.cu", 3, 5)]) == ("k.cu(2): odd", "k.cu(6): odd", "own.h(5): odd", told)
    assert warnings_in(log, [("k.cu", 5, 5)])[-1].startswith("1 warning about")


def test_headers_that_are_left_out_are_one_warning() -> None:
    one = 'k.cu(1): warning #1105-D: #warning directive: "a.h" was not found and is left out\n'
    assert warnings_in(one) == ('k.cu(1): "a.h" was not found and is left out',)
    more = one + one.replace("a.h", "b/c.h").replace("(1)", "(2)") + one.replace("a.h", "d.h")
    assert warnings_in(more) == ('k.cu(1): "a.h", "b/c.h" and "d.h" were not found and are left out',)


@given(st.text(max_size=80))
def test_it_is_one_line_of_the_log(log: str) -> None:
    found = first_error(log)
    assert found
    assert not log.strip() or found in log


def test_spills_are_stores_and_loads() -> None:
    assert Resources(32, 8, 12, 16, 0, 0, 0).spill_bytes == 20


@pytest.mark.parametrize(
    ("code", "log"), [(-9, ""), (1, "x.cu(1): warning\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)\n")]
)
def test_a_tool_that_was_killed_has_refused_nothing(code: int, log: str) -> None:
    with pytest.raises(WorkerLostError, match="nvcc was killed") as error:
        check_not_killed("nvcc", code, log)
    assert error.value.killed


@pytest.mark.parametrize(
    ("code", "log"),
    [
        (0, "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"),
        (-11, ""),
        (1, "nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)"),
        (1, "k.cu(1): error: 'x' died due to signal 9"),
    ],
)
def test_a_tool_that_crashes_or_refuses_was_not_killed(code: int, log: str) -> None:
    check_not_killed("nvcc", code, log)
