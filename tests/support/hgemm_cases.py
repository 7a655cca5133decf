"""Settings and problems for the templates of kernel_src/hgemm, small enough to execute without a GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from compiling import compile_text

from lab.base.elements import ELEMENT_BYTES
from lab.base.expressions import Scalar
from lab.emulator.results import FindingKind
from lab.operators.builtin import operator
from lab.operators.gemm import GemmProblem
from lab.recorded.run_records import EmulationRecord
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter
from lab.templates.instance import Instance

SMALL: dict[str, Scalar] = {"block_m": 64, "block_n": 32, "warp_m": 32, "warp_n": 16}
SETTINGS: dict[str, tuple[str, dict[str, Scalar]]] = {
    "fragments": ("v0_fragments", {"warp_m": 16, "warp_n": 16}),
    "fragments, 8 rows": ("v0_fragments", {"warp_m": 8, "warp_n": 32, "warps_m": 4, "warps_n": 1}),
    "ldmatrix": ("v1_ldmatrix", SMALL),
    "ldmatrix, lines of 32 bytes": ("v1_ldmatrix", {**SMALL, "block_m": 32, "warp_m": 16, "block_k": 16}),
    "ldmatrix, slabs": ("v1_ldmatrix", {**SMALL, "block_m": 128, "block_k": 64}),
    "stages": ("v2_stages", SMALL),
    "two stages": ("v2_stages", {**SMALL, "block_n": 64, "warp_n": 32, "block_k": 64, "stages": 2}),
    "wgmma": ("v3_wgmma", {"block_m": 64}),
    "wgmma, deep": ("v3_wgmma", {"block_n": 64, "block_k": 128, "warpgroups": 1, "stages": 3}),
    "bulk": ("v4_bulk", {"block_m": 64, "stages": 3}),
    "bulk, deep": ("v4_bulk", {"block_m": 192, "block_n": 64, "block_k": 128, "warpgroups": 1, "stages": 2}),
    "specialised": ("v5_specialised", {"block_m": 128, "stages": 3}),
    "specialised, one multiplies": ("v5_specialised", {"block_m": 64, "block_n": 64, "warpgroups": 1, "stages": 2}),
    "specialised, three multiply": ("v5_specialised", {"block_m": 64, "block_n": 192, "warpgroups": 3, "stages": 2}),
    "persistent": ("v6_persistent", {"block_m": 64, "stages": 3, "group": 2, "blocks": 3}),
    "persistent, all at once": ("v6_persistent", {"block_m": 64, "block_k": 128, "stages": 2}),
    "persistent, two instructions": (
        "v6_persistent",
        {"block_m": 320, "block_n": 64, "warpgroups": 1, "stages": 2, "blocks": 2},
    ),
    "cluster": ("v7_cluster", {"block_m": 64, "stages": 3, "group": 2, "blocks": 4}),
    "cluster of four": ("v7_cluster", {"block_m": 128, "block_n": 64, "warpgroups": 1, "cluster": 4, "blocks": 4}),
    "epilogue": ("v8_epilogue", {"block_m": 64, "stages": 3, "group": 2, "blocks": 4}),
    "epilogue, several parts": (
        "v8_epilogue",
        {"block_m": 192, "block_n": 64, "warpgroups": 1, "stages": 2, "blocks": 2},
    ),
    "packed": ("packed", {"block_m": 64, "stages": 3, "group": 2, "blocks": 4}),
    "split": ("split", {**SMALL, "block_k": 32, "split_k": 1, "stages": 3}),
    "split, two blocks": ("split", {"block_m": 32, "block_n": 32, "warp_n": 16, "block_k": 16, "split_k": 2}),
    "split, eight blocks": (
        "split",
        {"block_m": 32, "block_n": 16, "warp_n": 16, "block_k": 16, "split_k": 8, "stages": 2},
    ),
    "ping-pong": ("v9_pingpong", {"block_m": 64, "block_n": 64, "stages": 3, "group": 2, "blocks": 2}),
    "ping-pong, two instructions": ("v9_pingpong", {"block_m": 320, "block_n": 64, "stages": 2, "blocks": 2}),
    "split, wgmma": ("split_wgmma", {"block_m": 64, "stages": 3}),
    "split, wgmma, three blocks": (
        "split_wgmma",
        {"block_m": 64, "block_n": 64, "warpgroups": 1, "stages": 2, "split_k": 3},
    ),
    "stream": ("stream", {"block_m": 64, "stages": 3, "group": 2, "blocks": 3}),
    "stream, one multiplies": (
        "stream",
        {"block_m": 64, "block_n": 64, "warpgroups": 1, "stages": 2, "group": 2, "blocks": 7},
    ),
}
"""Every rung, and what its parameters make different: widths of lines, several slabs, one stage's depth, warpgroups."""

POINTS = (
    ((1, 1, 1), (1.0, 0.0), 0),
    ((65, 127, 67), (-1.5, 0.5), 3),
    ((31, 33, 40), (0.0, 2.0), 8),
    ((137, 129, 136), (2.0, 0.0), 7),
)
"""Sizes, factors, and elements behind each column; those of the last let 16 bytes of C be stored at once."""

ALL_POINTS = range(len(POINTS))
HALVES = ((3, 0), (1, 2))
"""Points by number, the larger one first, for tests that execute a template's text at one half of them only."""


NARROW = (
    ("float32", "float32", "tf32"),
    ("float8_e4m3fn", "bfloat16", "fast_accumulation"),
    ("float8_e5m2", "float16", "fast_accumulation"),
    ("int8", "int32", ""),
    ("float8_e4m3fn", "float32", "fast_accumulation"),
)
"""Types other than those of 16 bits: of A and B, of C, and what the problem says of precision."""

PROMOTED: dict[str, tuple[str, dict[str, Scalar]]] = {
    "persistent, promoted": (
        "v6_persistent", {"block_m": 64, "block_k": 128, "stages": 3, "promote": 1, "group": 2, "blocks": 3},
    ),
    "cluster, promoted": ("v7_cluster", {"block_m": 64, "block_k": 128, "stages": 2, "promote": 1, "blocks": 4}),
    "epilogue, promoted": ("v8_epilogue", {"block_m": 64, "block_k": 128, "stages": 2, "promote": 1, "blocks": 4}),
}  # fmt: skip
"""Rungs that add up sums of 13 bits in FP32, for problems that name no precision."""


WARPS = {key: setting for key, setting in SETTINGS.items() if setting[0] < "v3" and setting[0].startswith("v")}
"""Rungs whose matrix instructions are those of a warp (mma.sync)."""

WARP_TYPES = (("float32", "float32", "tf32"), ("int8", "int32", ""))
"""What these multiply beside 16 bits, as in `NARROW`."""


_TURNS: dict[str, Scalar] = {"block_m": 64, "block_n": 64, "stages": 3, "schedule": "pingpong", "blocks": 2}
_SHARE: dict[str, Scalar] = {"block_m": 128, "block_n": 64, "stages": 2, "blocks": 4}
CUTLASS: dict[str, tuple[dict[str, Scalar], dict[str, Scalar]]] = {
    "ping-pong": (_TURNS, {"dtype": "bfloat16", "layout": "tn"}),
    "ping-pong, C of float32": (
        {**_TURNS, "adds_c": True, "swizzle": 4},
        {"dtype": "bfloat16", "out_dtype": "float32", "layout": "tn"},
    ),
    "ping-pong, deep": (
        {**_TURNS, "block_m": 128, "block_k": 128, "stages": 2},
        {"dtype": "float16", "out_dtype": "bfloat16", "layout": "tt"},
    ),
    "cooperative": ({**_SHARE, "adds_c": True}, {"dtype": "bfloat16", "layout": "tn"}),
    "cooperative, along m": ({**_SHARE, "raster": "m", "swizzle": 2}, {"dtype": "float16", "layout": "nn"}),
    "cooperative, no clusters": ({**_SHARE, "cluster": 1, "blocks": 3}, {"dtype": "bfloat16", "layout": "nt"}),
    "as it is": ({"blocks": 2}, {"dtype": "bfloat16", "layout": "tn"}),
}
"""Parameters of CUTLASS's kernel, and types and layout of its problems."""


def cutlass_problems(parameters: Mapping[str, Scalar], types: Mapping[str, Scalar]) -> Iterator[GemmProblem]:
    """Yield problems that CUTLASS computes: blocks take several tiles, and go round their ring of stages."""
    gemm = operator("gemm")
    for (m, n, k), alpha, beta, slack in (
        ((8, 1, 1), 1.0, 0.0, 0),
        ((264, 260, 136), -1.5, 0.0, 3),
        ((520, 130, 200), 2.0, 0.5, 8),
    ):
        shape = {"m": m, "n": n, "k": k, "alpha": alpha, "beta": beta if parameters.get("adds_c") else 0.0, **types}
        leading = {key: -(-(gemm.problem(shape)[key] + slack) // 8) * 8 for key in ("lda", "ldb", "ldc")}
        yield gemm.problem({**shape, **leading})


def narrow(parameters: dict[str, Scalar], dtype: str, usual: int = 64) -> dict[str, Scalar]:
    """Return parameters with tiles as deep in bytes as those of 16-bit elements, which are `usual` or given."""
    return {**parameters, "block_k": int(parameters.get("block_k", usual)) * 2 // ELEMENT_BYTES[dtype]}


def narrow_warps(name: str, parameters: dict[str, Scalar], dtype: str) -> dict[str, Scalar]:
    """Return parameters of a rung below v3 as `narrow` does; v0 has no tiles."""
    return parameters if rung(name) == 0 else narrow(parameters, dtype, usual=32)


def template(name: str) -> front_matter.Template:
    """Read a template of kernel_src/hgemm."""
    return front_matter.load(f"hgemm/{name}.cu.j2", front_matter.search_path())


def arch(name: str) -> str:
    """Return the architecture a template is compiled for; wgmma and TMA templates need sm_90a."""
    return "90a" if rung(name) >= 3 or name in {"packed", "split_wgmma", "stream"} else "90"


def rung(name: str) -> int:
    """Return a template's number in the ladder; 0 for one that is not in it."""
    return int(name[1]) if name.startswith("v") else 0


def problems(
    name: str, layout: str, dtype: str, out_dtype: str, precision: str = "", *, points: Collection[int] = ALL_POINTS
) -> Iterator[GemmProblem]:
    """Yield the points of these numbers for the types and the layout."""
    gemm = operator("gemm")
    factor = 2 if dtype == "int8" else 1  # so that they are integers
    aligned, stored = rung(name) >= 2 or name in {"split_wgmma", "stream"}, rung(name) >= 8
    whole = {"lda": 16 // ELEMENT_BYTES[dtype], "ldb": 16 // ELEMENT_BYTES[dtype], "ldc": 8}
    for i in points:
        (m, n, k), (alpha, beta), slack = POINTS[i]
        shape = {"m": m, "n": n, "k": k, "dtype": dtype, "out_dtype": out_dtype, "layout": layout}
        shape |= {"precision": precision} if precision else {}
        leading = {key: gemm.problem(shape)[key] + slack for key in ("lda", "ldb", "ldc")}
        if aligned or (name == "split" and i % 2):  # which takes another path where columns are not aligned
            leading |= {key: -(-leading[key] // whole[key]) * whole[key] for key in list(whole)[: 3 if stored else 2]}
        yield gemm.problem({**shape, **leading, "alpha": alpha * factor, "beta": beta * factor})


def executed_with(
    name: str,
    parameters: Mapping[str, Scalar],
    problem: GemmProblem,
    old: str = "",
    new: str = "",
    *,
    excused: frozenset[FindingKind] = frozenset(),
) -> EmulationRecord:
    """Execute a template in whose source `new` stands for `old`."""
    instance = Instance.of(template(name), parameters, problem)
    assert (instance.unsupported(), instance.unmet()) == (None, None)
    assert old in instance.source
    text = instance.source.replace(old, new) if old else instance.source
    ptx = compile_text(text, arch=f"compute_{arch(name)}")
    done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}, excused=excused), ptx)
    assert done.unsupported == ""
    return done
