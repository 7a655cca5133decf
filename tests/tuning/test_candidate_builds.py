from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from run_support import InProcess, build_once
from tuning_support import BASE, H200, LOOP, kernel, tuning

from lab.isa.matrix import FLOAT16
from lab.stages.build import BuildFailure, BuildTask, Built
from lab.store.tuning_model import KernelFacts, ProblemType
from lab.templates import front_matter
from lab.toolchain.select import toolchain
from lab.tuning.candidate_builds import Workshop
from lab.tuning.choose.protocol import Candidate, candidate
from lab.tuning.file.load import Group


@pytest.fixture
def group(tmp_path: Path) -> Group:
    (found,) = tuning(tmp_path).groups
    return found


def candidates(group: Group, *tiles: int) -> list[Candidate]:
    proposed = [candidate(group, {**group.initial, "thread_tile_0": tile, "thread_tile_1": tile}) for tile in tiles]
    return [one for one in proposed if isinstance(one, Candidate)]


class Shop:
    """A workshop in this process that remembers what it was asked and what it told."""

    def __init__(self, refused: str = "") -> None:
        self.asked: list[int] = []
        self.told: list[KernelFacts] = []
        self._refused = refused
        self.shop = Workshop(toolchain("nvrtc"), "sm_90", H200, InProcess(), self.told.append, self._build)

    def _build(self, tasks: Sequence[BuildTask]) -> Sequence[Built | BuildFailure]:
        self.asked.append(len(tasks))
        if self._refused:
            return [BuildFailure(self._refused) for _ in tasks]
        return build_once(tasks)


def test_a_kernel_is_built_once_and_its_facts_are_read_from_its_code(group: Group) -> None:
    workshop, (tile_candidate,) = Shop(), candidates(group, 4)
    first = workshop.shop.make([tile_candidate, tile_candidate])
    second = workshop.shop.make([tile_candidate])
    assert workshop.asked == [1]
    assert first == second
    assert list(first) == [tile_candidate.name]
    built = first[tile_candidate.name]
    facts = built.facts
    assert workshop.told == [facts]
    assert list(workshop.shop.known) == [facts.id]
    assert built.cubin.startswith(b"\x7fELF")
    assert (facts.name, facts.group, facts.type, facts.arch) == (tile_candidate.name, "tensile", "float32_nn", "sm_90")
    assert facts.threads == 256
    assert facts.registers > 0
    assert facts.blocks_per_sm > 0
    assert facts.census is not None
    assert facts.census.fma > 0
    predicted = built.predicted_ms((4096, 4096, 4096), H200)
    assert predicted is not None
    assert 2 * 4096**3 / predicted / 1e9 < H200.peak_tflops("float32")


def test_what_decides_the_code_or_the_launch_decides_the_id(group: Group) -> None:
    workshop = Shop()
    kernels = workshop.shop.make(candidates(group, 4, 2))
    assert len({kernel.facts.id for kernel in kernels.values()}) == 2
    other = Workshop(toolchain("nvrtc"), "sm_80", H200, InProcess(), lambda _: None, build_once)
    assert not set(other.make(candidates(group, 4))) - set(kernels)
    assert not set(other.known) & set(workshop.shop.known)


def test_a_kernel_that_cannot_be_built_says_why_and_is_not_built_again(group: Group) -> None:
    workshop = Shop("ptxas refused it")
    (tile_candidate,) = candidates(group, 4)
    for _ in range(2):
        built = workshop.shop.make([tile_candidate])[tile_candidate.name]
        assert (built.facts.failure, built.cubin, dict(built.loops)) == ("ptxas refused it", b"", {})
        assert built.predicted_ms((64, 64, 64), H200) is None
    assert workshop.asked == [1]


def test_the_prediction_of_a_sequence_counts_every_launch(group: Group) -> None:
    whole = kernel(group)
    split = kernel(group, global_split_u=4, global_split_u_algorithm="workspace")
    size = (4096, 4096, 4096)
    steps = split.launches(size).steps
    assert len(steps) > len(whole.launches(size).steps) == 1
    alone, together = whole.predicted_ms(size, H200), split.predicted_ms(size, H200)
    assert alone is not None
    assert together is not None
    assert together > alone


def test_without_a_loop_there_is_no_prediction(group: Group) -> None:
    assert kernel(group, loop=None).predicted_ms((64, 64, 64), H200) is None
    assert kernel(group, loop=LOOP).predicted_ms((64, 64, 64), H200) is not None


def test_a_header_beside_the_template_is_found_and_decides_the_id(tmp_path: Path, root: Path) -> None:
    text = (root / "kernel_src" / "gemm" / "tensile.cu.j2").read_text()
    head, mark, body = text.partition("---#}")
    (tmp_path / "own.cu.j2").write_text(f'{head}{mark}\n#include "own.h"\nOWN\n{body}')
    file = BASE.format(steps="").replace("gemm/tensile.cu.j2", "own.cu.j2")
    ids = set()
    for header in ("#define OWN", "#define OWN __device__ int unused;"):
        (tmp_path / "own.h").write_text(header)
        (group,) = tuning(tmp_path, text=file).groups
        (kernel_built,) = Shop().shop.make(candidates(group, 4)).values()
        assert kernel_built.facts.failure == ""
        assert kernel_built.cubin
        ids.add(kernel_built.facts.id)
    assert len(ids) == 2


def test_float64_has_half_the_peak_and_twice_the_bytes(tmp_path: Path) -> None:
    """On an H200; by the model, nothing was measured."""
    single, double = (tuning(tmp_path, f"problem: {{Precision: {letter}}}").groups[0] for letter in "SD")
    times = []
    for group in (single, double):
        kernels = Shop().shop.make(candidates(group, 4))
        (sole_kernel,) = kernels.values()
        assert sole_kernel.facts.failure == ""
        assert sole_kernel.facts.type == f"{group.type.dtype}_nn"
        assert sole_kernel.facts.census is not None
        assert sole_kernel.facts.census.fma == 4 * 4 * 8
        predicted = sole_kernel.predicted_ms((4096, 4096, 4096), H200)
        assert predicted is not None
        assert 2 * 4096**3 / predicted / 1e9 < H200.peak_tflops(group.type.dtype)
        times.append(predicted)
    assert times[1] > 1.3 * times[0]  # not twice: a thread tile of 4 x 4 is bound by shared memory in float32


def of_matrix_instructions(group: Group, name: str, **given: int) -> Candidate:
    template = front_matter.load(f"hgemm/{name}.cu.j2", front_matter.search_path())
    other = replace(group, name=name, template=template, type=ProblemType("bfloat16", "nn"), constraints=())
    proposed = candidate(other, given)
    assert isinstance(proposed, Candidate)  # what it requires of sizes excludes no kernel
    return proposed


def test_a_kernel_says_which_sizes_it_does_not_compute(group: Group) -> None:
    shop = Workshop(toolchain("nvrtc"), "sm_90a", H200, InProcess(), lambda _: None, build_once)
    proposed = of_matrix_instructions(group, "v7_cluster", block_m=128)
    built = shop.make([proposed])[proposed.name]
    assert built.facts.failure == ""
    assert (built.facts.threads, built.facts.cluster, built.facts.blocks_per_sm) == (384, 2, 1)
    assert built.facts.peak_tflops == H200.tensor_tflops({FLOAT16: 1.0})
    assert built.refused((4096, 4096, 4096)) == ""
    for _ in range(2):
        assert built.refused((4095, 64, 64)).startswith("not for this size: lda * element_bytes % 16 == 0")
    assert built.launches((8192, 8192, 64)).steps[0].grid == (H200.sms, 1, 1)  # as many blocks as the GPU holds
    assert built.launches((128, 256, 64)).steps[0].grid == (2, 1, 1)
    large, small = (built.predicted_ms((side, side, side), H200) for side in (8192, 4096))
    assert large is not None
    assert small is not None
    assert 0.3 * 989 < 2 * 8192**3 / large / 1e9 < 989  # TFLOP/s, the tensor cores' peak
    assert 6 < large / small < 9
