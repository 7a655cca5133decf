"""The SGEMM with TMA loads: when it is launched, which planted faults are found, and its SASS analysis."""

import pytest
from compiling import ptx_of

from lab.base.expressions import Scalar
from lab.isa.mix import kernel_mix
from lab.isa.sass.module import read_sass
from lab.library.specialise import kernel as library_kernel
from lab.operators.builtin import operator
from lab.predict.schedulers.loop import Unit, main_loop
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache
from lab.toolchain.cubin.image import code
from lab.toolchain.select import build, toolchain

TEMPLATE = kernels.load("gemm/sgemm.cu.j2", kernels.search_path())
SMALL: dict[str, Scalar] = {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "copies": "bulk"}
REUSED = {**SMALL, "pack": "both", "workers": 1, "epilogue": "shared"}


def problem(**given):
    return operator("gemm").problem({"m": 64, "n": 32, "k": 40, "layout": "nt", **given})


def source(given, **of):
    return Instance(TEMPLATE, TEMPLATE.completed(given), problem(**of)).source


def found(text, given, **of):
    """Kinds of the findings."""
    of = problem(**of)
    launch_sequence = Instance(TEMPLATE, TEMPLATE.completed(given), of).launches
    done = emulate(EmulationTask(launch_sequence, "gemm", of, 0, {}), ptx_of(text))
    assert done.unsupported == ""
    return {finding.kind for finding in done.findings}


@pytest.mark.parametrize(
    ("given", "of", "entry"),
    [
        ({}, {}, "sgemm_bulk"),
        ({}, {"m": 61, "lda": 64}, "sgemm_bulk_unaligned"),
        ({}, {"ldc": 65}, "sgemm_bulk_unaligned"),
        ({}, {"m": 4, "n": 4, "k": 1}, "sgemm_bulk"),
        ({}, {"lda": 66}, "sgemm_small"),
        ({}, {"n": 31}, "sgemm_small"),
        ({"pack": "both"}, {"m": 61, "n": 31}, "sgemm_bulk_unaligned"),
        ({"pack": "both"}, {"layout": "tn", "lda": 41}, "sgemm_bulk"),
    ],
)
def test_bulk_copies_where_columns_are_aligned(given, of, entry):
    launch_sequence = Instance(TEMPLATE, TEMPLATE.completed({**SMALL, **given}), problem(**of)).launches
    assert launch_sequence.main.entry == entry
    assert [one.name for one in launch_sequence.tensor_maps] == (["a_map", "b_map"] if "bulk" in entry else [])


def test_operands_along_k_must_be_packed():
    for layout in ("nn", "tt", "tn"):
        unmet = Instance(TEMPLATE, TEMPLATE.completed(SMALL), problem(layout=layout)).unmet()
        assert "cannot transpose" in unmet.because
        packed = TEMPLATE.completed({**SMALL, "pack": "transposed"})
        assert Instance(TEMPLATE, packed, problem(layout=layout)).unmet() is None


MUTANTS = [
    ("no wait", SMALL, "        ring.wait(read, phase);\n", "", "async-not-waited"),
    ("first wait left out", SMALL, "    ring.wait(read, phase);\n    load", "    load", "async-not-waited"),
    ("phase never flips", SMALL, "if (wraps) phase ^= 1;", "", "mbarrier-deadlock"),
    ("no barrier before the refill", SMALL, "__syncthreads();  // this tile", "// this tile", "shared-race"),
    ("no barrier after the mbarriers", SMALL, "__syncthreads();  // the mbarriers", "// the mbarriers", "shared-race"),
    ("too many bytes", SMALL, "copied = 2048", "copied = 2064", "mbarrier-deadlock"),
    ("one operand alone", SMALL, "copy(b_map,", "if (step < 0) copy(b_map,", "mbarrier-deadlock"),
    ("mbarriers not fenced", SMALL, "fence.mbarrier_init.release.cluster;\\n\\tfence.proxy.async.shared::cta;", "",
     "missing-proxy-fence"),
    ("C's tile not fenced", REUSED, "fence.proxy.async.shared::cta;", "", "missing-proxy-fence"),
    ("mbarriers not given back", REUSED, "ring.end();", ";", "mbarrier-misuse"),
    ("parts not apart", REUSED, "__syncthreads();  // nobody reads", "// nobody reads", "shared-race"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "old", "new", "kind"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_planted_faults_are_found(given, old, new, kind):
    text = source(given)
    assert old in text
    assert kind in found(text.replace(old, new), given)


@pytest.mark.parametrize("given", [SMALL, REUSED], ids=["a block a tile", "stream-K"])
def test_the_originals_are_clean(given):
    assert found(source(given), given) == set()


def test_the_hot_loop_is_the_one_that_multiplies(tmp_path):
    built = build(toolchain("nvrtc"), CompileRequest(source({"copies": "bulk"}), "kernel.cu", "sm_90"), Cache(tmp_path))
    module = read_sass(built.disassembly.text, built.disassembly.lines, "kernel.sass")
    (function,) = (f for f in module.kernels if f.name == "sgemm_bulk")
    mix = kernel_mix("sass", function)
    hot = mix.hot_loop
    assert hot.counts.fma == 1024
    assert hot.counts.by_class["cp.async.bulk"] == 2
    assert hot.fetches
    path = main_loop(function, code(built.build.cubin, "sgemm_bulk"), mix).path(None)
    assert 15 <= sum(slot.once for slot in path) < 40  # one warp asks for the tiles
    assert [slot.unit for slot in path if slot.unit in (Unit.PHASE, Unit.BARRIER)] == [Unit.PHASE, Unit.BARRIER]
    assert [slot.once for slot in path if slot.unit is Unit.BULK] == [True, True]
    assert len(path) - sum(slot.once for slot in path) == hot.counts.instructions - hot.aside


def test_a_library_takes_no_tensor_maps():
    for copies, takes in (("async", False), ("bulk", True)):
        parameters = TEMPLATE.completed({**SMALL, "copies": copies})
        stored_kernel = library_kernel(
            "x", cubin="x.cubin", template=TEMPLATE, parameters=parameters, dtype="float32", layout="nt"
        )
        kinds = {kind for launch in stored_kernel.launches for _, kind in launch.arguments}
        assert ("tensor_map" in kinds) is takes
        assert len(stored_kernel.launches) == 3
