"""Put the kernels of the SGEMM article through lab without a GPU: the tables of docs/explanation/the-texts-kernels.md.

The sources are cut out of the article's text (`texts.py`). Every kernel is compiled, executed on the CPU and compared
with NumPy under several conditions, each of which is one experiment on a plain kernel:

    python benchmarks/text_kernels.py                       # print the tables
    python benchmarks/text_kernels.py --write               # write them into the page
    python benchmarks/text_kernels.py --experiments FOLDER  # leave sources and experiments there, for a GPU
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pandas as pd
from result_tables import filled
from texts import ROOT, SGEMM, cut_namespaces, read, replaced

import lab
from lab.recorded.run_records import EmulationRecord

PAGE: Final = ROOT / "docs" / "explanation" / "the-texts-kernels.md"
SOURCE: Final = "gemm.cu"
PROBLEM: Final = (8192, 8192, 8192)
EMULATED: Final = (256, 128, 64)
AT_THE_EDGE: Final = (100, 70, 64)
ARCH: Final = "sm_90"


@dataclass(frozen=True)
class Kernel:
    """A kernel of the article and its launch.

    Attributes:
        name: Its name on the page.
        expression: Its C++ expression, as the article's host code launches it.
        tile: Rows and columns of C that a block computes.
        block: Threads of a block.
        swapped: blockIdx.x counts tiles of columns.
        repair: What is replaced in the source, and by what; empty for the kernel as it stands.
        after: Where the repair begins to look.
        columns: The problem's field with the columns of C, which no argument of another meaning may share.
    """

    name: str
    expression: str
    tile: int
    block: tuple[int, ...]
    swapped: bool = False
    repair: tuple[str, str] = ("", "")
    after: str = ""
    columns: str = "n"

    @property
    def file(self) -> str:
        """A name for files: `64x64-repaired`."""
        return self.name.replace(" ", "-").replace(",", "")


KERNELS: Final = (
    Kernel("v0", "wuk::gemm_32x32_v0<float>", 32, (32, 32), swapped=True),
    Kernel("v1", "wuk::gemm_32x32_v1<float>", 32, (32, 32)),
    Kernel("v2", "wuk::gemm_32x32_v2<float>", 32, (32, 32)),
    Kernel("v3", "wuk::gemm_32x32_v3<float, 32>", 32, (32, 32)),
    Kernel("v4", "wuk::gemm_32x32_v4<float, 32>", 32, (32, 32)),
    Kernel("v5", "wuk::gemm_32x32_v5<float, float4, 0>", 32, (256,)),
    Kernel("64x64", "wuk::gemm_64x64<float, float4, 0>", 64, (256,)),
    Kernel("128x128", "wuk::gemm_128x128<float, float4, 1>", 128, (256,)),
)
"""The article's own eight, in its order."""

OTHERS: Final = (
    Kernel("Alcanderian 1", "Alcanderian::cuda_kernel_sgemm_1", 32, (32, 32)),
    Kernel("Alcanderian 2", "Alcanderian::cuda_kernel_sgemm_2", 32, (32, 32)),
    Kernel("Alcanderian 3", "Alcanderian::cuda_kernel_sgemm_3", 32, (32, 32)),
    Kernel("fynv", "fynv::g_fgemm", 128, (256,), columns="columns"),
)
"""Kernels that the article compares with; the first three are row-major."""

REPAIRED: Final = (
    Kernel(
        "v5 repaired",
        KERNELS[5].expression,
        32,
        (256,),
        repair=(
            "s_B[(((idx * TvSize) & 31) << 5) + ((idx * TvSize) >> 5)]",
            "s_B[((((idx * TvSize) & 31) + i) << 5) + ((idx * TvSize) >> 5)]",
        ),
        after="gemm_32x32_v5(",
    ),
    Kernel(
        "64x64 repaired",
        KERNELS[6].expression,
        64,
        (256,),
        repair=("((T *)&tmpA)[i] * ((T *)&tmpB)[h]", "((T *)&tmpA)[h] * ((T *)&tmpB)[i]"),
        after="gemm_64x64(",
    ),
    Kernel(
        "128x128 two buffers",
        KERNELS[7].expression,
        128,
        (256,),
        repair=("#if TWO_BUFFER", "#if 1"),
        after="gemm_128x128(",
    ),
)
"""The three whose source does not do what the article says of it, with the fewest changes that make it do so."""


def source(kernel: Kernel) -> str:
    """Return a kernel's source, cut out of the article and repaired where the kernel says so.

    Raises:
        FileNotFoundError: The article is not here.
        ValueError: It is another one.
    """
    listing = cut_namespaces(read(SGEMM), "Alcanderian", "fynv", "wuk")
    old, new = kernel.repair
    return replaced(listing, old, new, after=kernel.after) if old else listing


def _arguments(kernel: Kernel, direction: str, contents: str) -> dict[str, str]:
    """Return the arguments as an experiment has them: shapes in C's order, so that column-major ones are transposed."""
    if kernel in OTHERS[:3]:
        sizes = {size: f"uint64 = {size.lower()}" for size in ("N", "M", "K")}
        arrays = {"a": f"float32[m, k]{contents}", "b": f"float32[k, n]{contents}", "c": f"{direction} float32[m, n]"}
        return {**arrays, **sizes, "alpha": "float32", "beta": "float32"}
    columns = kernel.columns
    result, first, second = (
        f"{direction} float32[{columns}, m]",
        f"float32[k, m]{contents}",
        f"float32[{columns}, k]{contents}",
    )
    leading = {"lda": "int32 = m", "ldb": "int32 = k", "ldc": "int32 = m"}
    if kernel is OTHERS[3]:
        return {"d_C": result, "d_A": first, "d_B": second, "n": "int32 = k", **leading}
    return {
        "m": "int32",
        "n": "int32",
        "k": "int32",
        "alpha": "float32",
        "A": first,
        "lda": leading["lda"],
        "B": second,
        "ldb": leading["ldb"],
        "beta": "float32",
        "C": result,
        "ldc": leading["ldc"],
    }


@dataclass(frozen=True)
class Conditions:
    """Conditions of an execution.

    Attributes:
        poisoned: C holds nothing before the launch, as BLAS allows with beta = 0; else it holds random numbers.
        constant: A and B are filled with ones, as the article fills them with constants; else with random numbers.
        beta: The factor of C.
        emulated: The m, n and k that the CPU executes.
    """

    poisoned: bool = False
    constant: bool = False
    beta: float = 0.0
    emulated: tuple[int, int, int] = EMULATED


AS_USUAL: Final = Conditions()


def experiment(kernel: Kernel, conditions: Conditions = AS_USUAL) -> dict[str, Any]:
    """Return an experiment on a kernel as a mapping, for a file beside `SOURCE`."""
    output, product = {
        **dict.fromkeys(OTHERS[:3], ("c", "matmul(a, b)")),
        OTHERS[3]: ("d_C", "matmul(d_B, d_A)"),
    }.get(kernel, ("C", "matmul(B, A)"))
    takes_c = kernel is not OTHERS[3] and not conditions.poisoned
    sizes = ("m", kernel.columns, "k")
    tiles = [f"ceil_div(m, {kernel.tile})", f"ceil_div({kernel.columns}, {kernel.tile})"]
    return {
        "question": f"Does {kernel.name} of the article compute the product?",
        "source": SOURCE,
        "kernel": kernel.expression,
        "problem": {**dict(zip(sizes, PROBLEM, strict=True)), "alpha": 1.0, "beta": conditions.beta},
        "emulate": dict(zip(sizes, conditions.emulated, strict=True)),
        "arguments": _arguments(kernel, "inout" if takes_c else "out", " ones" if conditions.constant else ""),
        "grid": tiles[::-1] if kernel.swapped else tiles,
        "block": list(kernel.block),
        "reference": {output: f"alpha * {product}{f' + beta * {output}' if takes_c else ''}"},
        "metrics": {"TFLOP/s": f"2 * m * {kernel.columns} * k / time"},
        "archs": [ARCH],
    }


def write_experiment(kernel: Kernel, folder: Path, conditions: Conditions = AS_USUAL) -> Path:
    """Write a kernel's source and its experiment into a folder, and return the experiment's file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SOURCE).write_text(source(kernel), encoding="utf-8")
    file = folder / f"{kernel.file}.yaml"
    file.write_text(json.dumps(experiment(kernel, conditions), indent=2), encoding="utf-8")
    return file


def executed(kernel: Kernel, conditions: Conditions = AS_USUAL) -> EmulationRecord:
    """Return what executing a kernel on the CPU found."""
    with tempfile.TemporaryDirectory() as temporary:
        return cast("EmulationRecord", lab.emulate(write_experiment(kernel, Path(temporary), conditions)))


def compiled(kernel: Kernel) -> pd.Series:
    """Return the row of a kernel's machine code."""
    with tempfile.TemporaryDirectory() as temporary:
        file = write_experiment(kernel, Path(temporary))
        return lab.run(file, gpu=False, emulate=False, output=Path(temporary) / "run").frame.iloc[0]


def verdict(record: EmulationRecord) -> str:
    """Return what an execution found, in a few words."""
    if record.failure or record.unsupported or record.verification is None:
        return f"not executed: {record.failure or record.unsupported}"
    words = [f"{finding.kind.replace('-', ' ')} of {finding.variable.partition('[')[0]}" for finding in record.findings]
    wrong = re.search(r"(\d+) of (\d+) elements are wrong", record.verification.worst)
    if wrong is not None and not any(word.startswith("uninitialised") for word in words):
        words.append(f"{int(wrong[1]):,} of {int(wrong[2]):,} elements wrong")
    return ", ".join(dict.fromkeys(words)) or "right"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def verdicts() -> str:
    """Return the table of verdicts: a row for each kernel, a column for each condition."""
    lines = [
        _row("kernel", "beta = 0, C holds numbers", "beta = 0, C poisoned", "A and B constant"),
        _row(*["---"] * 4),
    ]
    for kernel in (*KERNELS, *OTHERS, *REPAIRED):
        cells = [verdict(executed(kernel))]
        cells.append("does not read C" if kernel is OTHERS[3] else verdict(executed(kernel, Conditions(poisoned=True))))
        cells.append(verdict(executed(kernel, Conditions(constant=True))))
        lines.append(_row(f"`{kernel.name}`", *cells))
    return "\n".join([*lines, ""])


def edges() -> str:
    """Return the table of verdicts on a problem that no tile divides."""
    lines = [_row("kernel", "beta = 0", "beta = 1"), _row(*["---"] * 3)]
    for kernel in (KERNELS[1], KERNELS[4]):
        cells = [verdict(executed(kernel, Conditions(beta=beta, emulated=AT_THE_EDGE))) for beta in (0.0, 1.0)]
        lines.append(_row(f"`{kernel.name}`", *cells))
    return "\n".join([*lines, ""])


def machine_code() -> str:
    """Return the table of machine code: resources of a block, and the instructions of the PTX loop that multiplies."""
    head = ("kernel", "registers", "shared bytes", "occupancy", "fma", "ld.shared", "instructions")
    lines = [_row(*head), _row("---", *["---:"] * (len(head) - 1))]
    for kernel in (*KERNELS, *OTHERS, *REPAIRED):
        row = compiled(kernel)
        resources = [int(row["registers"]), f"{int(row['shared_bytes']):,}", f"{row['occupancy']:.0%}"]
        loop = [int(row[f"ptx_{counted}"]) for counted in ("fma", "ld_shared", "instructions")]
        lines.append(_row(f"`{kernel.name}`", *resources, *loop))
    return "\n".join([*lines, ""])


def tables() -> dict[str, str]:
    """Return the page's tables by the names of their markers."""
    return {"verdicts": verdicts(), "edges": edges(), "machine code": machine_code()}


def main() -> None:
    """Print the tables, write them into the page, or leave the experiments in a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--experiments", type=Path, help="write sources and experiments into folders below")
    arguments = parser.parse_args()
    if arguments.experiments is not None:
        for kernel in (*KERNELS, *OTHERS, *REPAIRED):
            print(write_experiment(kernel, arguments.experiments / kernel.file))
        return
    made = tables()
    if arguments.write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    print("\n".join(made.values()))


if __name__ == "__main__":
    main()
