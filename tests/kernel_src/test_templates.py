"""Every template, emulated: correct on awkward sizes, and free of races and bad accesses."""

from __future__ import annotations

import functools
import itertools

import pytest
from compiling import ptx_of
from covering import gated, pairs
from narrowing import as_

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.templates.mapping.text import parse
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

ROOTS = kernels.search_path()
CLASSIC = "gemm/classic.cu.j2"  # takes whole tiles and the layout nn alone: test_classic.py
NAMES = [name for name in kernels.available(ROOTS) if name.startswith("gemm/") and name != CLASSIC]
TILES: dict[str, dict[str, Scalar]] = {
    "v5": {
        "block_m": 32,
        "block_n": 32,
        "block_k": 32,
        "thread_m": 4,
        "thread_n": 1,
        "unroll": 32,
        "double_buffer": False,
    },
    "64x64": {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 4, "thread_n": 4, "unroll": 16, "padding": 4},
    "128x128": {},
    "narrow vectors": {"vector_width": 2, "padding": 2, "unroll": 2},
    "no vectors": {"vector_width": 1, "padding": 1, "unroll": 1, "double_buffer": False},
    "pointers": {
        "block_m": 64,
        "block_n": 32,
        "block_k": 16,
        "thread_m": 4,
        "thread_n": 4,
        "swap": "pointer",
        "unroll": 4,
    },
    "no prefetch": {
        "block_m": 32,
        "block_n": 64,
        "block_k": 16,
        "thread_m": 4,
        "thread_n": 4,
        "prefetch": False,
        "unroll": 4,
    },
    "no prefetch, one tile": {
        "block_k": 16,
        "thread_n": 4,
        "padding": 4,
        "prefetch": False,
        "double_buffer": False,
        "block_n": 64,
    },
    "no prefetch, pointers": {"block_m": 64, "thread_m": 4, "prefetch": False, "swap": "pointer", "vector_width": 1},
}
SGEMM: dict[str, dict[str, Scalar]] = {
    "sgemm 32x32": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "stages": 4},
    "sgemm loop": {
        "block_m": 64,
        "block_n": 32,
        "block_k": 16,
        "thread_m": 8,
        "thread_n": 4,
        "stages": 3,
        "unroll": 4,
        "order": "row_zigzag",
        "group": 2,
        "early_loads": True,
        "branches": False,
    },
    "sgemm z-order": {
        "block_m": 32,
        "block_n": 64,
        "block_k": 32,
        "thread_m": 4,
        "thread_n": 8,
        "lane_map": "zorder",
        "unroll": 2,
        "order": "column_snake",
        "padding": 0,
        "streaming": True,
        "branches": False,
    },
    "sgemm 4 x 20": {
        "block_m": 64,
        "block_n": 40,
        "block_k": 16,
        "thread_m": 4,
        "thread_n": 20,
        "lanes_m": 16,
        "split_k": 2,
    },
    "sgemm packed": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "pack": "both", "block_k": 16},
    "sgemm transposed first": {
        "block_m": 64,
        "block_n": 48,
        "thread_m": 8,
        "thread_n": 12,
        "pack": "transposed",
        "stages": 3,
        "branches": False,
    },
    "sgemm packed split-k": {
        "block_m": 32,
        "block_n": 32,
        "thread_m": 4,
        "thread_n": 4,
        "pack": "both",
        "split_k": 2,
        "epilogue": "shared",
    },
    "sgemm packed stream-k": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "pack": "both", "workers": 5},
    "sgemm split-k": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "split_k": 3, "stages": 3},
    "sgemm through shared memory": {"block_m": 32, "block_n": 64, "thread_m": 4, "thread_n": 8, "epilogue": "shared"},
    "sgemm stream-k": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "workers": 7, "group": 2},
    "sgemm stream-k shared": {
        "block_m": 32,
        "block_n": 32,
        "thread_m": 4,
        "thread_n": 4,
        "workers": 32,
        "epilogue": "shared",
        "branches": False,
    },
    "sgemm bulk": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "copies": "bulk", "stages": 3},
    "sgemm bulk split-k": {
        "block_m": 64,
        "block_n": 48,
        "block_k": 16,
        "thread_m": 8,
        "thread_n": 12,
        "copies": "bulk",
        "pack": "transposed",
        "unroll": 4,
        "early_loads": True,
        "branches": False,
        "split_k": 2,
    },
    "sgemm bulk stream-k": {
        "block_m": 32,
        "block_n": 32,
        "thread_m": 4,
        "thread_n": 4,
        "copies": "bulk",
        "pack": "both",
        "workers": 5,
        "epilogue": "shared",
    },
}
TENSILE: dict[str, dict[str, Scalar]] = {
    "tensile LSU": {"work_group_0": 8, "work_group_1": 8, "local_split_u": 4, "thread_tile_0": 4, "thread_tile_1": 4,
                    "loop_unroll": 2, "global_split_u": 3, "work_group_mapping": 2},
    "tensile workspace": {"work_group_1": 8, "local_split_u": 2, "thread_tile_0": 2, "thread_tile_1": 4,
                          "loop_unroll": 3, "global_split_u": 4, "global_split_u_algorithm": "workspace",
                          "global_split_u_work_group_mapping_round_robin": True, "prefetch_global_read": False},
    "tensile no prefetch": {"work_group_0": 4, "work_group_1": 8, "thread_tile_0": 3, "thread_tile_1": 6,
                            "loop_unroll": 4, "prefetch_global_read": False, "prefetch_local_read": False},
    "tensile odd": {"work_group_0": 12, "thread_tile_0": 6, "thread_tile_1": 4, "loop_unroll": 5, "vector_width": 2,
                    "prefetch_local_read": False, "work_group_mapping": 1},
    "tensile loads": {"work_group_0": 8, "work_group_1": 4, "thread_tile_0": 8, "thread_tile_1": 4, "vector_width": 4,
                      "loop_unroll": 8, "num_loads_coalesced_a": 2, "num_loads_coalesced_b": 2},
}  # fmt: skip
"""Sub-groups, both ways to split k among blocks, thread tiles without vectors, and every way to share out the loads."""

TRANSPOSED = {
    "scattered reads": {"a": {"group": False}, "b": {"group": False}},
    "vectors written": {"a": {"vector": False}, "b": {"vector": False}},
    "both": {"a": {"group": False, "vector": False}, "b": {"vector": False, "group": False}},
}
"""How an operand that is transposed on its way is read; each holds for the layouts that transpose it."""

CUTLASS, SGEMM_TEMPLATE = "gemm/cutlass.cu.j2", "gemm/sgemm.cu.j2"
VARIANTS: list[tuple[str, dict[str, Scalar]]] = [(name, {}) for name in NAMES if "tiled" not in name]
VARIANTS += [("gemm/tiled.cu.j2", given) for given in TILES.values()]
IDS = [name for name, _ in VARIANTS[: -len(TILES)]] + list(TILES)
VARIANTS += [(SGEMM_TEMPLATE, given) for given in SGEMM.values()]
IDS += SGEMM
THIN: dict[str, dict[str, Scalar]] = {
    "thin, one element a block": {"threads": 64, "elements": 1, "unroll": 2},
    "thin, many elements a block": {"threads": 128, "elements": 64, "unroll": 1},
    "thin, a sum a thread": {"along": "m", "threads": 64, "elements": 64, "rows": 2, "columns": 8, "unroll": 4},
    "thin, along n": {"along": "n", "threads": 128, "elements": 32, "rows": 4, "columns": 2, "unroll": 2},
}
VARIANTS += [("gemm/thin.cu.j2", given) for given in THIN.values()]
IDS += THIN
VARIANTS += [("gemm/tensile.cu.j2", given) for given in TENSILE.values()]
IDS += TENSILE
FURTHER: dict[str, tuple[str, dict[str, Scalar]]] = {
    "edges shifted": ("gemm/edges.cu.j2", {"edge": "shifted"}),
    "edges shifted, read-only": ("gemm/edges.cu.j2", {"edge": "shifted", "read_only": True}),
    "edges copied": ("gemm/edges.cu.j2", {"edge": "copied"}),
    "shuffled, 1 row": ("gemm/shuffled.cu.j2", {"thread_m": 1, "thread_n": 2, "warps": 2}),
    "cutlass, copies": (CUTLASS, {"block_m": 64, "block_n": 32, "warp_m": 32, "warp_n": 16, "stages": 4, "swizzle": 2}),
}
VARIANTS += FURTHER.values()
IDS += FURTHER
SETTINGS = dict(zip(IDS, VARIANTS, strict=True))
TALL = "cyclic2d(width=(4, 1), items=(8, 2), threads=(8, 4))"
MOVES = [
    ("copy/linear.cu.j2", {}),
    ("copy/linear.cu.j2", {"mapping": "cyclic(width=2, items=6, threads=48)", "blocks": 3}),
    ("copy/linear.cu.j2", {"mapping": "[3, 2] | [(5, 3), 7] => [t1, -i0, t0, i1]", "vector": False}),
    ("copy/tiles.cu.j2", {}),
    ("copy/tiles.cu.j2", {"mapping": TALL, "tile_m": 64, "vector": True}),
    ("copy/tiles.cu.j2", {"mapping": "[5] | [3, (9, 7)] => [-t1, i0, -t0]", "tile_m": 35}),
    ("transpose/direct.cu.j2", {}),
    ("transpose/direct.cu.j2", {"mapping": TALL, "tile_m": 64, "vector": True}),
    ("transpose/direct.cu.j2", {"mapping": "[5] | [3, (9, 7)] => [-t1, i0, -t0]", "tile_m": 21}),
    ("transpose/shared.cu.j2", {}),
    ("transpose/shared.cu.j2", {"load": TALL, "store": "cyclic2d(width=(8, 1), items=(8, 2), threads=(2, 16))",
                                "tile_m": 32, "vector": True, "padding": 0}),
    ("transpose/shared.cu.j2", {"load": "[5] | [3, (9, 7)] => [-t1, i0, -t0]", "store": "[5] | [(27, 21)] => [i0, t0]",
                                "tile_m": 15}),
]  # fmt: skip
"""Templates of moves with mappings whose sizes are powers of two or not, that reverse, and that leave threads idle."""

SHAPES = [(1, 1), (31, 33), (32, 64), (64, 5), (129, 68), (1000, 1), (3, 257)]
SIZES = [(1, 1, 1), (33, 31, 32), (37, 5, 67), (64, 128, 65), (129, 127, 9), (132, 68, 36)]
LAYOUTS = ("nn", "nt", "tn", "tt")
FACTORS = [(1.0, 0.0), (-1.5, 0.5), (0.0, 2.0)]
SHARES = 8
"""Parts of the sizes and factors, of which a test sees one."""


def executed(name, settings, problem, ptx_of=ptx_of):
    """The record of one launch, and what the template says of its accesses."""
    template = kernels.load(name, ROOTS)
    parameters = template.completed(settings)
    assert (template.unsupported(problem), Instance(template, parameters, problem).unmet()) == (None, None)
    source = Instance(template, parameters, problem).source
    task = EmulationTask(Instance(template, parameters, problem).launches, template.declares.operator, problem, 0, {})
    return emulate(task, ptx_of(source)), Instance(template, parameters, problem).predictions


@functools.lru_cache(maxsize=4)
def assembled_ptx_of(source):
    return toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", "sm_90")).ptx


def settings_and_layouts():
    """Every setting with each layout and type that its template takes, and with two shares of the sizes in turn."""
    turns = itertools.product(SETTINGS, LAYOUTS, ("float32", "float64"), (0, SHARES // 2))
    for turn, (key, layout, dtype, half) in enumerate(turns):
        name, parameters = SETTINGS[key]
        fetched = (
            parameters.get("copies") != "bulk" or "pack" in parameters or layout == "nt"
        )  # columns along k are not
        if fetched and (name != SGEMM_TEMPLATE or dtype == "float32"):
            yield key, layout, dtype, (turn // 3 + half) % SHARES


def features(key, layout, dtype, share):
    """Every setting; and of a template, the pairs of what transposes an operand and the type, and every share."""
    name, _ = SETTINGS[key]
    return {key, *pairs(name, layout[0], layout[1], dtype), *pairs(layout, dtype, share)}


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("key", "layout", "dtype", "share"), gated(settings_and_layouts(), features))
def test_every_template_is_right_and_clean(key, layout, dtype, share):
    """Each sees its share of the sizes and factors, and the smallest size."""
    (name, given), gemm = SETTINGS[key], operator("gemm")
    for i, ((m, n, k), (alpha, beta)) in reversed([*enumerate(itertools.product(SIZES, FACTORS))]):
        if i and i % SHARES != share:
            continue
        shape = {"m": m, "n": n, "k": k, "dtype": dtype, "layout": layout}
        # slack behind the columns: none, some that breaks the alignment of vectors, some that keeps it
        leading = {key: gemm.problem(shape)[key] + (0, 3, 4)[i % 3] for key in ("lda", "ldb", "ldc")}
        # ptxas, too, takes each setting; one of sgemm, which has no float64, may be executed in one layout only
        compiled = assembled_ptx_of if layout in ("nn", "nt") or name == SGEMM_TEMPLATE else ptx_of
        done, _ = executed(name, given, gemm.problem({**shape, **leading, "alpha": alpha, "beta": beta}), compiled)
        assert done.unsupported == ""
        assert done.fault == "", f"{shape} {leading} alpha={alpha} beta={beta}: {done.fault}"
        assert done.verification.passed


def transposed():
    """Each way with the layouts that transpose one operand, and with the one that transposes both where both differ."""
    for shown, ways in TRANSPOSED.items():
        for layout in ("nn", "tt", "tn"):
            marks = [pytest.mark.thorough] if (layout == "tn") != (shown == "both") else []
            yield pytest.param(ways, layout, id=f"{shown}-{layout}", marks=marks)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("ways", "layout"), list(transposed()))
def test_transposed_operands_are_read_right(ways, layout):
    parameters = {"work_group_0": 8, "work_group_1": 8, "thread_tile_0": 4, "thread_tile_1": 4}
    for operand, transposed in (("a", layout[0] == "t"), ("b", layout[1] == "n")):
        for way, value in ways[operand].items() if transposed else ():
            parameters[f"global_read_coalesce_{way}_{operand}"] = value
    gemm = operator("gemm")
    for m, n, k in [(33, 31, 32), (64, 36, 52), (5, 70, 9)]:
        problem = gemm.problem({"m": m, "n": n, "k": k, "layout": layout})
        done, _ = executed("gemm/tensile.cu.j2", parameters, problem)
        assert done.unsupported == done.fault == ""
        assert done.verification.passed


@pytest.mark.parametrize("mode", ["group", "vector"])
def test_an_operand_without_the_choice_may_share_the_others_setting(mode):
    """As GlobalReadCoalesceGroup and GlobalReadCoalesceVector of Tensile's paper, which A and B have together."""
    parameters: dict[str, int] = {f"global_read_coalesce_{mode}_{operand}": False for operand in "ab"}
    parameters |= {"work_group_0": 8, "work_group_1": 8, "thread_tile_0": 4, "thread_tile_1": 4}
    template, gemm = kernels.load("gemm/tensile.cu.j2", ROOTS), operator("gemm")
    for layout in LAYOUTS:
        problem = gemm.problem({"m": 33, "n": 31, "k": 32, "layout": layout})
        if layout == "nt":  # no operand is transposed on its way
            assert Instance(template, template.completed(parameters), problem).unmet() is not None
        else:
            done, _ = executed("gemm/tensile.cu.j2", parameters, problem)
            assert done.fault == ""
            assert done.verification.passed


PAPERS = [
    ((3, 3), (12, 16, 1), 8, 2, "tn"),
    ((6, 3), (24, 8, 1), 8, 1, "nn"),
    ((3, 4), (8, 12, 4), 16, 6, "nt"),
    ((4, 6), (6, 32, 1), 8, 1, "tn"),
    ((3, 6), (16, 2, 8), 8, 4, "nn"),
    ((6, 6), (8, 8, 1), 8, 2, "nn"),
    ((8, 6), (32, 2, 4), 8, 6, "tn"),
    ((4, 3), (4, 4, 4), 64, 1, "nt"),
    ((6, 8), (8, 4, 8), 64, 8, "tn"),
    ((8, 2), (8, 8, 2), 32, 2, "nt"),
    ((6, 4), (16, 4, 4), 32, 1, "tn"),
    ((4, 4), (16, 16, 1), 24, 1, "nt"),
    ((4, 4), (16, 8, 2), 24, 2, "nn"),
]
"""ThreadTile, WorkGroup, DepthU, GlobalSplitU of the second experiment of Tensile's paper, and a layout: blocks of 64
to 384 threads, sides and thread tiles that are no powers of two, a k step a tile and sub-group."""


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(
    ("tile", "group", "depth", "split", "layout"),
    [pytest.param(*one, marks=pytest.mark.thorough) if i > 2 else one for i, one in enumerate(PAPERS)],
    ids=["x".join(map(str, (*tile, *group))) for tile, group, *_ in PAPERS],
)
def test_tiles_that_are_no_powers_of_two_are_right(tile, group, depth, split, layout):
    names = ("thread_tile_0", "thread_tile_1", "work_group_0", "work_group_1", "local_split_u")
    parameters = dict(zip(names, (*tile, *group), strict=True))
    parameters |= {"loop_unroll": depth // group[2], "global_split_u": split, "work_group_mapping": 1}
    parameters |= {"prefetch_global_read": split > 1}
    m, n, k = tile[0] * group[0] + 1, tile[1] * group[1] - 1, 2 * depth + 3
    problem = operator("gemm").problem({"m": m, "n": n, "k": k, "layout": layout, "alpha": -1.5, "beta": 0.5})
    done, _ = executed("gemm/tensile.cu.j2", parameters, problem)
    assert done.unsupported == done.fault == ""
    assert done.verification.passed


def test_no_template_is_left_out():
    known = {name for name in kernels.available(ROOTS) if name.partition("/")[0] in ("gemm", "copy", "transpose")}
    assert {CLASSIC, *(name for name, _ in (*VARIANTS, *MOVES))} == known


def moves_and_types():
    """Yield every move with every shape in float32; the other types alternate between halves of the shapes."""
    for number, (name, parameters) in enumerate(MOVES):
        yield pytest.param(name, parameters, "float32", (0, 1), id=f"{number}-{name}-float32")
        for turn, dtype in enumerate(("float64", "float16")):
            for half in range(2):
                marks = [pytest.mark.thorough] if (number + turn + half) % 2 else []
                yield pytest.param(
                    name, parameters, dtype, (half, 2), id=f"{number}-{name}-{dtype}-{half}", marks=marks
                )


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("name", "given", "dtype", "share"), list(moves_and_types()))
def test_every_move_is_right_and_clean(name, given, dtype, share):
    move = operator(name.partition("/")[0])
    for i, (m, n) in enumerate(SHAPES):
        if i % share[1] != share[0]:
            continue
        shape = {"m": m, "n": n, "dtype": dtype}
        leading = {key: move.problem(shape)[key] + (0, 3, 8)[i % 3] for key in ("lda", "ldb")}
        done, _ = executed(name, given, move.problem({**shape, **leading}))
        assert done.unsupported == ""
        assert done.fault == "", f"{shape} {leading}: {done.fault}"
        assert done.verification.passed


@pytest.mark.parametrize(("name", "given"), MOVES)
def test_whole_tiles_cost_what_the_template_says(name, given):
    template = kernels.load(name, ROOTS)
    parameters = template.completed(given)
    tile = parse(str(parameters.get("mapping", parameters.get("load"))))
    rows = as_(int, parameters.get("tile_m", tile.size))
    move = operator(name.partition("/")[0])
    # leading dimensions keep columns apart and aligned to a sector
    m, n = 2 * rows, 3 * tile.size // rows
    apart = (
        {"lda": -(-m // 8) * 8, "ldb": -(-(m if move.name == "copy" else n) // 8) * 8} if "tile_m" in parameters else {}
    )
    done, predicted = executed(name, given, move.problem({"m": m, "n": n, **apart}))
    counted = {
        access: count.sectors_per_request if access.startswith("global") else count.bank_conflicts / count.requests
        for access, count in done.executed.memory.items()
    }
    assert set(counted) == set(predicted)
    if tile.size % 8 == 0 and rows % 8 == 0 and (tile.size // rows) % 8 == 0:
        assert counted == pytest.approx(predicted)
