"""Hold `lab diff` to changes whose class is known: traps that it must tell, harmless changes that it must not raise.

    python benchmarks/diff_traps.py                             # traps, and 100 harmless changes of the sources below
    python benchmarks/diff_traps.py --pool others --seed 7      # of experiments/others: not used while it was built
    python benchmarks/diff_traps.py --pool others --mutants 200 # random changes of literals and operators

A mutant is judged by the machine code itself: where the bytes of code, constants or attributes differ and `lab diff`
says identical, it is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lab.base import yamlfile
from lab.base.errors import LabError, UserError
from lab.diff.classify import CodeClass
from lab.diff.collect import CollectOptions, collect
from lab.diff.comparison import KernelChange, SideComparison, compare_sides
from lab.diff.side import CodeSide, SideImage, merged
from lab.isa.sass.control import BYTES
from lab.toolchain.cubin.image import sections

ROOT: Final = Path(__file__).parents[1]
ARCHS: Final = ("sm_80", "sm_90", "sm_120")

SOURCES: Final = {
    "scale": """
extern "C" __global__ void __launch_bounds__(256) scale(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 1.5f + 3.0f;
}
""",
    "shift": """
extern "C" __global__ void shift(int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 2 + 7;
}
""",
    "stencil": """
__constant__ float weights[5] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};
__constant__ float unset[4];
__constant__ float later[4];
extern "C" __global__ void stencil(float *y, const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 2 || i >= n - 2) return;
    float sum = unset[threadIdx.x & 3] * 2.0f + later[0];
    for (int k = 0; k < 5; k++) sum += weights[k] * x[i + k - 2];
    y[i] = sum;
}
""",
    "table": """
__device__ int steps[4] = {1, 5, 9, 13};
__device__ int next_step(int i) { return steps[i & 3]; }
extern "C" __global__ void walk(int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += next_step(x[i]);
}
""",
    "sum": """
extern "C" __global__ void sum(float *total, const float *x, int n)
{
    __shared__ float part[256];
    float mine = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) mine += x[i];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) *total = part[0];
}
""",
    "lanes": """
extern "C" __global__ void lanes(float4 *y, const float4 *a, const float4 *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = a[i], q = b[i], r;
    r.x = p.x - q.x;
    r.y = p.y * q.w;
    r.z = p.z / q.z;
    r.w = p.w + q.y;
    y[i] = r;
}
""",
    "report": """
#include <stdio.h>
extern "C" __global__ void report(const int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < 0) printf("negative at %d\\n", i);
}
""",
    "product": """
template <int TILE> __global__ void product(float *c, const float *a, const float *b, int n)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int j = 0; j < TILE; j++) sum += left[threadIdx.y][j] * right[j][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
template __global__ void product<16>(float *, const float *, const float *, int);
""",
    "poly": """
__device__ __noinline__ double horner(double x) { return ((3.25 * x + 1.75) * x - 0.125) * x + 9.0; }
extern "C" __global__ void poly(double *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = horner(x[i]) / 7.0;
}
""",
    "flag": """
extern "C" __global__ void flag(volatile int *ready, int *data, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    data[i] = i % n;
    __threadfence();
    if (threadIdx.x == 0) *ready = 1;
}
""",
}
"""Sources that `lab diff` was built with."""


@dataclass(frozen=True)
class Case:
    """A change whose class is known.

    Attributes:
        name: What is changed.
        base: The source before.
        head: The source after.
        base_options: Compiler options before.
        head_options: Compiler options after.
        file: File name after; before, it is `kernel.cu`.
        patch: Changes the cubin after compiling.
    """

    name: str
    base: str
    head: str
    base_options: tuple[str, ...] = ()
    head_options: tuple[str, ...] = ()
    file: str = "kernel.cu"
    patch: Callable[[bytes], bytes] | None = None


def patched(cubin: bytes, first_bit: int, place: int = 2) -> bytes:
    """Flip a bit of an instruction of the first kernel.

    Args:
        cubin: The image.
        first_bit: The bit, of 128.
        place: The instruction.
    """
    section = next(section for section in sections(cubin) if section.name.startswith(".text."))
    start = cubin.index(section.content) + place * BYTES + first_bit // 8
    return cubin[:start] + bytes([cubin[start] ^ 1 << first_bit % 8]) + cubin[start + 1 :]


def traps() -> list[Case]:
    """Return changes that must be told, whatever else is equal."""

    def edit(source: str, old: str, new: str, name: str) -> Case:
        return Case(name, SOURCES[source], SOURCES[source].replace(old, new, 1))

    def flags(source: str, head: tuple[str, ...], name: str, base: tuple[str, ...] = ()) -> Case:
        return Case(name, SOURCES[source], SOURCES[source], base, head)

    scale = SOURCES["scale"]
    return [
        edit("shift", "* 2", "* 3", "integer factor"),
        edit("shift", "+ 7", "+ 8", "integer immediate"),
        edit("scale", "3.0f", "3.5f", "float immediate"),
        edit("poly", "3.25", "3.125", "FP64 immediate in a called function"),
        edit("stencil", "k - 2", "k - 1", "address offset"),
        edit("stencil", "0.4f", "0.5f", "contents of a constant bank alone"),
        edit("stencil", "unset[threadIdx.x & 3] * 2.0f + later[0]", "later[threadIdx.x & 3] * 2.0f + unset[0]",
             "two constants exchanged that the host sets"),
        edit("table", "9, 13", "9, 14", "contents of a variable alone"),
        edit("report", "negative at", "negative in", "text of printf alone"),
        edit("scale", "bounds__(256)", "bounds__(512)", "launch bounds alone"),
        flags("shift", ("--maxrregcount=64",), "flag alone: register limit"),
        flags("lanes", ("--use_fast_math",), "flag alone: fast math"),
        flags("stencil", ("--fmad=false",), "flag alone: no contraction"),
        edit("lanes", "p.x - q.x", "q.x - p.x", "operands exchanged"),
        edit("lanes", "p.w + q.y", "p.w + q.x", "another lane of a vector"),
        edit("sum", "part[256]", "part[512]", "shared memory alone"),
        edit("flag", "__threadfence()", "__threadfence_block()", "scope of a fence"),
        edit("flag", "int *data", "int *data, int pad", "parameters alone"),
        Case("control bits alone: a stall", scale, scale, patch=lambda cubin: patched(cubin, 105)),
        Case("control bits alone: a scoreboard", scale, scale, patch=lambda cubin: patched(cubin, 117, 7)),
        Case("a bit that the listing does not show", scale, scale, patch=hidden),
    ]  # fmt: skip


def hidden(cubin: bytes) -> bytes:
    """Flip a bit of the scheduling word's reserved part, 126, which the listing does not show."""
    return patched(cubin, 126, 3)


Transform = Callable[[str, random.Random], str]
_IDENTIFIER = re.compile(r"\b(?:int|float|double|unsigned|float4)\s+\*?([a-z]\w*)\s*(?:=|;|,)")
_KERNEL_NAME = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)")


def rename_local(source: str, rng: random.Random) -> str:
    """Rename a variable of a function."""
    names = sorted(set(_IDENTIFIER.findall(source)) - {"x", "y", "z", "w", "n"})
    if not names:
        return source
    name = rng.choice(names)
    return re.sub(rf"(?<![.\w]){name}\b", f"{name}_{rng.randrange(100)}", source)


def rename_kernel(source: str, rng: random.Random) -> str:
    """Rename a kernel."""
    name = rng.choice(_KERNEL_NAME.findall(source))
    return re.sub(rf"\b{name}\b", f"{name}_v{rng.randrange(10)}", source)


def rename_global(source: str, rng: random.Random) -> str:
    """Rename a variable or function of the device."""
    names = re.findall(r"__(?:constant|device)__\s+(?:__noinline__\s+)?\w+\s+(\w+)", source)
    if not names:
        return source
    name = rng.choice(names)
    return re.sub(rf"\b{name}\b", f"{name}_renamed", source)


def comment(source: str, rng: random.Random) -> str:
    """Put comments and empty lines between lines, not within macros."""
    lines = []
    for line in source.split("\n"):
        lines.append(line)
        if not rng.randrange(2) and not line.endswith("\\"):
            lines.append(rng.choice(["", "// a remark", "/* another\n   remark */"]))
    return "\n".join(lines)


def prepend_unused(source: str, rng: random.Random) -> str:
    """Put what no kernel uses before everything."""
    unused = [
        "__device__ float unused_function(float x) { return x * 3.0f; }",
        "struct Unused { int a; float b; };",
        "#define UNUSED 17",
        "static __device__ int unused_variable = 5;",
        "template <typename T> __device__ T unused_template(T x) { return x + x; }",
        "typedef float unused_type;",
    ]
    return "\n".join(rng.sample(unused, rng.randrange(1, 4))) + "\n" + source


def add_kernel(source: str, rng: random.Random) -> str:
    """Add another kernel before or behind."""
    name = f"another{rng.randrange(10)}"
    more = f'extern "C" __global__ void {name}(float *x) {{ x[threadIdx.x] *= {rng.randrange(2, 9)}.0f; }}\n'
    return source + "\n" + more if rng.randrange(2) else more + source


def respace(source: str, rng: random.Random) -> str:
    """Indent and break lines in another way."""
    width = rng.choice([1, 2, 8])
    return re.sub(r"^( +)", lambda match: " " * (len(match[1]) // 4 * width), source, flags=re.MULTILINE)


def declare_first(source: str, _rng: random.Random) -> str:
    """Add forward declarations of the functions on the device."""
    declared = re.findall(r"^(__device__ (?:__noinline__ )?\w+ \w+\([^)]*\))\s*\{", source, re.MULTILINE)
    return "".join(f"{declaration};\n" for declaration in declared) + source


def parenthesise(source: str, _rng: random.Random) -> str:
    """Put parentheses around conditions."""
    return re.sub(r"\bif \(([^()&|]+)\)", r"if ((\1))", source)


def swap_words(source: str, _rng: random.Random) -> str:
    """Write qualifiers in another order."""
    return re.sub(r"\bconst (float|int)\b", r"\1 const", source)


def name_literal(source: str, _rng: random.Random) -> str:
    """Add a macro, and line directives."""
    return f'#define LAB_ONE 1\n#line 100 "elsewhere.cu"\n{source}'


HARMLESS: Final[dict[str, Transform]] = {
    function.__name__: function
    for function in (
        rename_local, rename_kernel, rename_global, comment, prepend_unused, add_kernel, respace, declare_first,
        parenthesise, swap_words, name_literal,
    )
}  # fmt: skip


@dataclass(frozen=True)
class PoolSource:
    """A source of a pool, with the macros that it needs before its text."""

    name: str
    text: str


def pool(name: str) -> list[PoolSource]:
    """Return the sources of a pool: `own`, or a folder of experiments: `others`."""
    if name == "own":
        return [PoolSource(key, text) for key, text in SOURCES.items()]
    sources = []
    for file in sorted((ROOT / "experiments" / name).glob("*.cu")):
        experiment = file.with_suffix(".yaml")
        macros: dict[str, object] = {}
        if experiment.is_file():
            parameters = yamlfile.parse(yamlfile.read_text(experiment), experiment).data.get("parameters", {})
            for key, value in parameters.items():
                first = value[0] if isinstance(value, list) else value
                macros[key] = int(first) if isinstance(first, bool) else first
        # not by options: NVRTC's own headers use such names, too
        defined = "".join(f"#define {key} {value}\n" for key, value in macros.items())
        sources.append(PoolSource(file.stem, defined + file.read_text()))
    return sources


def harmless(seed: int, count: int, sources: Sequence[PoolSource]) -> Iterator[Case]:
    """Yield changes that do not touch what the machine does."""
    rng = random.Random(seed)  # noqa: S311 - drawn, not secret
    names = list(HARMLESS)
    for number in range(count):
        source = rng.choice(sources)
        if rng.randrange(7) == 0:
            file = rng.choice(["other.cu", "moved_here.cu"])
            yield Case(f"{number} {source.name}: file {file}", source.text, source.text, file=file)
            continue
        chosen = rng.sample(names, rng.randrange(1, 4))
        head = source.text
        for transform in chosen:
            head = HARMLESS[transform](head, rng)
        yield Case(f"{number} {source.name}: {', '.join(chosen)}", source.text, head)


_LITERAL = re.compile(r"(?<![\w.#])(\d+)(?:\.(\d+))?(f?)(?![\w.])")
_OPERATOR = re.compile(r"(?<=[\w\])] )([-+*<]|<=|>=|>|==|!=|&|\|)(?= [\w(-])")
_SWAPS: Final = {
    "+": "-", "-": "+", "*": "+", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "&": "|", "|": "&",
}  # fmt: skip


def mutants(seed: int, count: int, sources: Sequence[PoolSource]) -> Iterator[Case]:
    """Yield sources with one literal or operator changed, which usually changes what the machine does."""
    rng = random.Random(seed)  # noqa: S311 - drawn, not secret
    for number in range(count):
        source = rng.choice(sources)
        places = [*_LITERAL.finditer(source.text), *_OPERATOR.finditer(source.text)]
        place = rng.choice(places)
        if place.re is _LITERAL:
            new = f"{int(place[1]) + 1}{f'.{place[2]}' if place[2] is not None else ''}{place[3]}"
        else:
            new = _SWAPS[place[1]]
        text = source.text[: place.start()] + new + source.text[place.end() :]
        yield Case(f"{number} {source.name}: {place[0]} -> {new}", source.text, text)


def sides(cases: Sequence[Case], arch: Callable[[int], str]) -> tuple[CodeSide, CodeSide, list[str]]:
    """Return both sides of many cases, one image per case, and the cases that do not compile."""
    images: tuple[list[SideImage], list[SideImage]] = ([], [])
    broken: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for place, case in enumerate(cases):
            texts = (case.base, case.base_options, "kernel.cu"), (case.head, case.head_options, case.file)
            pair: list[SideImage] = []
            try:
                for number, (text, options, name) in enumerate(texts):
                    file = Path(folder, str(place), str(number), name)
                    file.parent.mkdir(parents=True)
                    file.write_text(text)
                    side = collect(file, CollectOptions((arch(place),), ("nvrtc",), options=options))
                    if side.failures:
                        raise UserError(side.failures[0][1], code="wrong-value")
                    pair.append(replace(side.images[0], where=f"case {place}"))
            except LabError as error:
                broken.append(f"{case.name}: {str(error).splitlines()[0]}")
                continue
            if case.patch is not None:
                pair[1] = replace(pair[1], cubin=case.patch(pair[1].cubin), disassembly=None)
            images[0].append(pair[0])
            images[1].append(pair[1])
    return CodeSide("base", tuple(images[0])), CodeSide("head", tuple(images[1])), broken


def by_case(comparison: SideComparison, cases: Sequence[Case]) -> dict[str, list[KernelChange]]:
    """Return the changes of each case by its name."""
    changes: dict[str, list[KernelChange]] = {}
    for change in comparison.changes:
        changes.setdefault(cases[int(change.where.removeprefix("case "))].name, []).append(change)
    return changes


def told_traps(arch: str) -> dict[str, str]:
    """Return how each trap is told for an architecture; empty where it is not.

    Two further traps are an architecture missing on one side, and a side of which nothing can be read.
    """
    cases = traps()
    base, head, broken = sides(cases, lambda _: arch)
    if broken:
        raise SystemExit(f"these traps do not compile: {broken}")
    changes = by_case(compare_sides(base, head), cases)
    answers = {
        case.name: next(
            (f"{c.cls}: {'; '.join(c.reasons)}" for c in changes.get(case.name, ()) if not c.cls.harmless), ""
        )
        for case in cases
    }
    scale = [cases[2]]
    alone, _, _ = sides(scale, lambda _: arch)
    other, _, _ = sides(scale, lambda _: "sm_90" if arch != "sm_90" else "sm_80")
    answers["an architecture missing on one side"] = "; ".join(
        compare_sides(merged("", [alone, other]), alone).missing_archs
    )
    answers["nothing to read on both sides"] = refusal(alone)
    return answers


def refusal(side: CodeSide) -> str:
    """Return the error about two sides whose listings have no instruction; empty where they are called equal."""
    cubin = side.images[0].cubin
    text = next(section.content for section in sections(cubin) if section.name.startswith(".text."))
    end = text[-BYTES:]  # a NOP, as behind every kernel
    nothing = CodeSide("nothing", (SideImage("", cubin.replace(text, end * (len(text) // BYTES))),))
    try:
        compare_sides(nothing, nothing, figures=True)
    except LabError as error:
        return str(error)
    return ""


def main() -> None:
    """Print what was told and what was raised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pool", default="own", help="own, others or plain")
    parser.add_argument("--harmless", type=int, default=100)
    parser.add_argument("--mutants", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    started = time.monotonic()
    sources = pool(arguments.pool)
    figures: dict[str, object] = {"pool": arguments.pool, "seed": arguments.seed}
    if arguments.pool == "own":
        told = {f"{name} ({arch})": how for arch in ARCHS for name, how in told_traps(arch).items()}
        figures["traps told"] = f"{sum(map(bool, told.values()))} of {len(told)}"
        figures["not told"] = [name for name, how in told.items() if not how]
    figures |= harmless_figures(arguments.seed, arguments.harmless, sources)
    if arguments.mutants:
        figures |= mutant_figures(arguments.seed, arguments.mutants, sources)
    figures["seconds"] = round(time.monotonic() - started, 1)
    if arguments.json:
        print(json.dumps(figures, indent=1))
        return
    for name, figure in figures.items():
        print(f"{name}: {figure}" if not isinstance(figure, list) else f"{name}: {len(figure)}")
        if isinstance(figure, list):
            print("".join(f"  {entry}\n" for entry in figure), end="")


def harmless_figures(seed: int, count: int, sources: Sequence[PoolSource]) -> dict[str, object]:
    """Return how many harmless changes are called so, and which are not."""
    drawn = list(harmless(seed, 2 * count, sources))  # some do not compile
    cases: list[Case] = []
    raised: list[str] = []
    broken: list[str] = []
    size = min(count, 40)
    for start in range(0, len(drawn), size):
        if len(cases) >= count:
            break
        batch = drawn[start : start + size]
        base, head, refused = sides(batch, lambda place: ARCHS[place % len(ARCHS)])
        broken += refused
        if not base.images:
            continue
        changes = by_case(compare_sides(base, head), batch)
        for name, found in list(changes.items())[: count - len(cases)]:
            cases += [case for case in batch if case.name == name]
            wrong = [f"{c.name} {c.arch} {c.cls}: {'; '.join(c.reasons)}" for c in found if not c.cls.harmless]
            raised += [f"{name}: {text}" for text in wrong[:1]]
    return {
        "harmless called harmless": f"{len(cases) - len(raised)} of {len(cases)}",
        "raised": raised,
        "did not compile": broken,
    }


def mutant_figures(seed: int, count: int, sources: Sequence[PoolSource]) -> dict[str, object]:
    """Return the classes of mutants, and those that differ in their bytes and are called harmless."""
    drawn = list(mutants(seed, 2 * count, sources))
    wrong: list[str] = []
    classes: Counter[str] = Counter()
    compiled = 0
    size = min(count, 40)
    for start in range(0, len(drawn), size):
        if compiled >= count:
            break
        batch = drawn[start : start + size]
        base, head, _ = sides(batch, lambda place: ARCHS[place % len(ARCHS)])
        if not base.images:
            continue
        compiled += len(base.images)
        changes = by_case(compare_sides(base, head), batch)
        for before, after in zip(base.images, head.images, strict=True):
            case = batch[int(before.where.removeprefix("case "))]
            same = _contents(before.cubin) == _contents(after.cubin)
            found = changes.get(case.name, [])
            worst = max((c.cls for c in found), key=list(CodeClass).index, default=CodeClass.CHANGED)
            classes[f"{worst}{' (same bytes)' if same else ''}"] += 1
            if worst.harmless and not same:
                wrong.append(f"{case.name}: {worst}")
    return {"mutants": compiled, "classes": dict(classes), "changed and called harmless": wrong}


def _contents(cubin: bytes) -> list[tuple[str, bytes, int]]:
    """Return the sections that decide what the machine does, without lines and symbols."""
    return [
        (section.name, section.content, section.size)
        for section in sections(cubin)
        if section.name.startswith((".text.", ".nv.constant", ".nv.global", ".nv.shared", ".nv.info"))
    ]


if __name__ == "__main__":
    main()
