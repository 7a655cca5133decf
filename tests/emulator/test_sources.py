"""Which line of the source a finding names."""

import pytest
from small_ptx import HEADER

from lab.emulator.api import launch
from lab.emulator.sources import chosen_by_library, is_library, own_calls, own_line
from lab.isa.model import Instruction, InstructionClass, SourceLocation

HEADERS = (
    "/cuda/cooperative_groups.h",
    "/venv/lib/python3.11/site-packages/nvidia/cu13/include/cccl/cub/block/block_scan.cuh",
    "/usr/local/cuda-12.4/include/cuda_fp16.hpp",
    "/usr/local/cuda/targets/x86_64-linux/include/cooperative_groups/details/reduce.h",
    "cub/block/block_scan.cuh",
)
OWN = ("/t.cu", "kernel.cu", "/home/me/cuda/kernel.cu", "/home/me/include/tile.cuh", "my_cub/block.cuh")


def instruction(*frames):
    source, *callers = (SourceLocation(file, line) for file, line in frames)
    return Instruction(0, 1, "nop", (), None, False, InstructionClass.OTHER, source=source, callers=tuple(callers))


@pytest.mark.parametrize("file", HEADERS)
def test_files_of_cuda(file):
    assert is_library(file)


@pytest.mark.parametrize("file", OWN)
def test_files_of_the_user(file):
    assert not is_library(file)


def test_the_innermost_line_of_the_users_is_named():
    found = own_line(instruction((HEADERS[0], 5), (HEADERS[1], 6), ("tile.cuh", 7), ("kernel.cu", 8)))
    assert found == SourceLocation("tile.cuh", 7)


def test_the_calls_of_the_users_that_led_there_follow_it():
    frames = (HEADERS[0], 5), ("tile.cuh", 7), (HEADERS[1], 6), ("kernel.cu", 8), ("kernel.cu", 9)
    found = own_calls(instruction(*frames))
    assert found == (SourceLocation("kernel.cu", 8), SourceLocation("kernel.cu", 9))
    assert own_calls(instruction((HEADERS[0], 5), (HEADERS[1], 6))) == ()


def test_where_all_are_headers_the_outermost_is_named():
    assert own_line(instruction((HEADERS[0], 5), (HEADERS[1], 6))) == SourceLocation(HEADERS[1], 6)


def test_no_line_is_named_where_the_ptx_has_none():
    assert own_line(Instruction(0, 1, "nop", (), None, False, InstructionClass.OTHER)) is None


def test_both_sides_of_a_race_within_inlined_code_name_the_users_lines():
    call = ".loc 2 {0}0 1, function_name $L__info_string0, inlined_at 1 {0} 2\n"
    ptx = f"""{HEADER}.visible .entry k() {{ .reg .b32 %r<3>; .shared .b32 s[2];
        .loc 1 3 2
        mov.u32 %r0, %tid.x; {call.format(4)} st.shared.u32 [s], %r0; {call.format(5)} ld.shared.u32 %r1, [s]; ret; }}
        .file 1 "/home/me/k.cu"
        .file 2 "/cuda/cooperative_groups.h"
        """
    races = [finding for finding in launch(ptx, "k", 1, 64, []).findings if finding.text.startswith("ld")]
    (race,) = races
    assert race.source == SourceLocation("/home/me/k.cu", 5)
    assert race.other.source == SourceLocation("/home/me/k.cu", 4)
    assert (race.warp, race.other.warp) != (None, None)
    assert race.thread is not None


def test_a_race_within_a_function_of_the_users_names_its_calls():
    call = ".loc 1 {0} 1, function_name $L__info_string0, inlined_at 1 {1} 2\n"
    ptx = f"""{HEADER}.visible .entry k() {{ .reg .b32 %r<3>; .shared .b32 s[2];
        mov.u32 %r0, %tid.x; .loc 1 30 2
        {call.format(4, 30)} st.shared.u32 [s], %r0; .loc 1 31 2
        {call.format(7, 31)} ld.shared.u32 %r1, [s]; ret; }}
        .file 1 "/home/me/k.cu"
        """
    (race,) = [finding for finding in launch(ptx, "k", 1, 64, []).findings if finding.text.startswith("ld")]
    assert race.calls == (SourceLocation("/home/me/k.cu", 31),)
    assert race.other.calls == (SourceLocation("/home/me/k.cu", 30),)
    assert race.summary.startswith("shared-race at k.cu:7, called at k.cu:31 (PTX line ")
    assert race.summary.endswith("; the write is at k.cu:4, called at k.cu:30")


def test_a_library_chooses_what_its_own_functions_call():
    assert chosen_by_library(instruction((HEADERS[0], 5), (HEADERS[1], 6), ("kernel.cu", 8)))
    assert not chosen_by_library(instruction((HEADERS[0], 5), ("kernel.cu", 8)))  # called by the user
    assert not chosen_by_library(instruction(("kernel.cu", 8)))
    assert not chosen_by_library(instruction((HEADERS[0], 5)))
