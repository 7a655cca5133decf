"""Mutated inputs for every reader of foreign text: each is read, or refused by an error of lab's own, in time.

python benchmarks/fuzz.py [--inputs 100000] [--seed 0] [--only NAME ...] [--seconds 10]

Prints what went wrong with the input's number, which with the seed makes it again; exit code 1 if anything did. Most
inputs are mutated files; expressions, templates and compiler options are also grown from a grammar (`fuzz_grown.py`),
PTX is mutated token by token and launched (`fuzz_ptx.py`), and run directories, databases and archives are damaged as
files and in what they hold (`fuzz_foreign.py`).

An escape is noticed in three ways. An audit hook hears of every file that this process opens for writing, removes or
renames, every process that it starts and every connection; only `lab`'s own workers are expected. Files appear in the
working directory, which is a temporary one: hostile inputs try to leave CANARY there. And from time to time /proc is
asked for children, of this process and of its children, that nobody expects.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from fuzz_foreign import MEMORY, number, read_archive, read_database, read_run
from fuzz_grown import PROBLEM, expression, options, read_options, template
from fuzz_grown import read_expression as read_grown_expression
from fuzz_grown import read_template as read_grown_template
from fuzz_ptx import mutated_ptx, read_and_launch
from fuzz_watch import WATCH

from lab.base.errors import LabError, Location
from lab.base.expressions import Scalar, evaluate
from lab.experiment.load import from_text
from lab.experiment.space import expand
from lab.isa.mix import kernel_mix
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.module import read_sass
from lab.templates import front_matter
from lab.templates.instance import Instance
from lab.toolchain.cubin.debug_lines import line_table
from lab.tuning.choose.protocol import candidate
from lab.tuning.file.load import from_text as read_groups

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 10
"""An input that takes more processor time hangs, as far as a user can tell."""
MOST_KB = 1 << 20
"""An input that takes more memory exhausts a machine."""
HANGS = 6
"""How many times that may pass on the clock: what waits for something else spends no processor time."""

HOSTILE = (
    "__import__('os').system('touch CANARY')",
    "''.__class__.__mro__[1].__subclasses__()",
    "cycler.__init__.__globals__.os.system('touch CANARY')",
    "{{ ''.__class__ }}",
    "{% import os %}",
    "!!python/object/apply:os.system ['touch CANARY']",
    "../../../../tmp/x",
    "<script>alert(1)</script>",
    "9**9**9**9",
    "'a' * 10**10",
    "range(10**12)",
    "[0] * 10**10",
    "(" * 200,
    "&a [*a, *a]",
    "1e999",
    "nan",
    "-1",
    str(2**70),
    "\x00",
    "\ufeff",
    "𝔵",
)

Reader = Callable[[bytes, Path], object]


def as_text(content: bytes) -> str:
    """As a file of the user's is read."""
    return content.decode("utf-8", errors="replace")


def read_experiment(content: bytes, folder: Path) -> object:
    """An experiment file, down to its points and the first one's launch."""
    points = expand(from_text(as_text(content), folder / "fuzz.yaml"), max_variants=200).points
    return points[0].instance.launches


def read_tuning(content: bytes, folder: Path) -> object:
    """A tuning file, down to its kernels without any time."""
    groups = read_groups(as_text(content), folder / "fuzz.yaml").groups
    return [candidate(group, {**group.initial, **option.given}) for group in groups for option in group.fork[:3]]


def read_template(content: bytes, folder: Path) -> object:
    """A template, rendered with its defaults."""
    (folder / "fuzz.cu.j2").write_bytes(content)
    template = front_matter.load("fuzz.cu.j2", (folder, ROOT / "kernel_src"))
    problem: dict[str, Scalar] = {**PROBLEM, "lda": 64, "ldb": 64, "ldc": 64}
    instance = Instance(template, template.completed({}), problem)
    return instance.source if instance.launches.steps else ""


def read_expression(content: bytes, folder: Path) -> object:
    """A constraint."""
    return evaluate(as_text(content), {"unroll": 4, "block_k": 8, "word": "nn"}, at=Location(folder), key="constraints")


def read_ptx_text(content: bytes, folder: Path) -> object:
    """PTX, down to its mix."""
    del folder
    module = read_ptx(as_text(content), "fuzz.ptx")
    return [kernel_mix(module.isa, function) for function in module.kernels]


def read_sass_text(content: bytes, folder: Path) -> object:
    """A listing of nvdisasm's, down to its mix."""
    del folder
    module = read_sass(as_text(content), file="fuzz.sass")
    return [kernel_mix(module.isa, function) for function in module.kernels]


def read_lines(content: bytes, folder: Path) -> object:
    """A cubin's line table; what is wrong with an image is a ValueError there."""
    del folder
    try:
        return line_table(content)
    except ValueError:
        return None


EMPTY_ELF = b"\x7fELF\x02\x01" + bytes(0x34) + (64).to_bytes(2, "little") + bytes(4)


def corpora() -> dict[str, tuple[Reader, list[bytes]]]:
    """Reader and unmutated inputs by name."""
    golden = ROOT / "tests" / "isa" / "golden"

    def files(*patterns: str) -> list[bytes]:
        return [path.read_bytes() for pattern in patterns for path in sorted(ROOT.glob(pattern))]

    expressions = [
        b"block_k % unroll == 0",
        b"unroll > 1 or not block_k",
        b"ceil_div(block_k, unroll) * max(1, min(unroll, 3)) <= 2 ** 8",
        b"word in ['nn', 'nt'] and unroll in range(1, 9)",
    ]
    yamls = files("experiments/*.yaml")
    return {
        "experiment": (read_experiment, [text for text in yamls if b"\ngroups:" not in text]),
        "tuning": (read_tuning, [text for text in yamls if b"\ngroups:" in text and b"csv" not in text]),
        "template": (read_template, files("kernel_src/gemm/v*.cu.j2")),
        "expression": (read_expression, expressions),
        "ptx": (read_ptx_text, [path.read_bytes() for path in sorted(golden.glob("*tile*.ptx"))]),
        "sass": (read_sass_text, [path.read_bytes() for path in sorted(golden.glob("*.lst"))]),
        "line table": (read_lines, [EMPTY_ELF, b"\x7fELF\x02\x01" + bytes(200)]),
    }


GROWN: dict[str, tuple[Reader, Callable[[random.Random], str]]] = {
    "grown expression": (read_grown_expression, expression),
    "grown template": (read_grown_template, template),
    "options": (read_options, options),
    "launched PTX": (read_and_launch, mutated_ptx),
    "run directory": (read_run, number),
    "database": (read_database, number),
    "archive": (read_archive, number),
}
"""Readers whose inputs are made by a function of their own."""


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The input with a few changes: bytes, numbers, lines, hostile words, a cut."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at, kind = rng.randrange(len(changed) + 1), rng.randrange(7)
        if kind == 0 and changed:
            changed[at % len(changed)] = rng.randrange(256)
        elif kind == 1:
            changed[at:at] = rng.choice(HOSTILE).encode()
        elif kind == 2:  # noqa: PLR2004 - kinds are numbered as they stand here
            del changed[at : at + rng.choice((1, 3, 20, 200))]
        elif kind == 3:  # noqa: PLR2004
            source = rng.randrange(len(changed) + 1)
            changed[at:at] = changed[source : source + rng.choice((5, 40, 400))]
        elif kind == 4:  # noqa: PLR2004
            changed[at:at] = rng.choice((b"\n", b" ", b"{", b"}", b"[", b"]", b'"', b"'", b":", b",", b"#", b"%", b"-"))
        elif kind == 5:  # noqa: PLR2004
            digits = [place for place, byte in enumerate(changed) if 48 <= byte <= 57]  # noqa: PLR2004 - 0 to 9
            if digits:
                changed[(place := rng.choice(digits)) : place + 1] = rng.choice(
                    (b"0", b"-1", b"99999999999", b"1.5", b"")
                )
        else:
            del changed[at if rng.random() < 0.1 else len(changed) :]  # noqa: PLR2004 - one in ten of these is a cut
    return bytes(changed)


def inputs(number: int, seed: int, only: Sequence[str] = ()) -> Iterator[tuple[int, str, Reader, bytes]]:
    """The inputs in turn: number, name, reader, content."""
    readers = corpora()
    names = only or [*readers, *GROWN]
    for index in range(number):
        rng = random.Random(f"{seed} {index}")  # noqa: S311 - no secret
        name = names[index % len(names)]
        if name in GROWN:
            grown, grow = GROWN[name]
            yield index, name, grown, grow(rng).encode()
        else:
            reader, corpus = readers[name]
            yield index, name, reader, mutated(rng.choice(corpus), rng)


LOOK_EVERY = 500
"""Inputs between two looks at the processes."""


def _too_long(number: int, frame: FrameType | None) -> None:
    del number, frame
    if WATCH.reading:
        raise TimeoutError("no answer in time")


def _allow(seconds: int) -> None:
    """Send a signal after so many seconds of processor time, or when nothing comes of an input; 0 for never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(HANGS * seconds)


def fuzz(number: int, seed: int, only: Sequence[str] = (), seconds: int = LIMIT_S) -> tuple[Counter[str], list[str]]:
    """Feed the inputs to their readers in a temporary directory.

    Args:
        number: How many.
        seed: Of the mutations.
        only: The readers to test; all by default.
        seconds: Longest processor time of one input, whatever else the machine does meanwhile.

    Returns:
        How many were read and refused, by name; and what went wrong.
    """
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    most_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + MOST_KB
    before, signals = Path.cwd(), (signal.SIGPROF, signal.SIGALRM)
    previous = [signal.signal(one, _too_long) for one in signals]
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        os.chdir(folder)
        try:
            for index, kind, reader, content in inputs(number, seed, only):
                WATCH.reading = True
                _allow(seconds)
                try:
                    reader(content, folder)
                    counts[f"{kind}: read"] += 1
                except LabError:
                    counts[f"{kind}: refused"] += 1
                except BaseException as error:  # noqa: BLE001 - anything else is what is looked for
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    wrong.append(
                        f"{index} {kind}: {type(error).__name__}: {error} ({last.filename}:{last.lineno})"[:300]
                    )
                finally:
                    WATCH.reading = False  # an alarm in here is one for an input that has its answer
                    _allow(0)
                if (peak := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) > most_kb:
                    wrong.append(f"{index} {kind}: {peak - most_kb + MOST_KB} KiB more than at the beginning")
                    most_kb = peak
                wrong += [f"{index} {kind}: {one}" for one in WATCH.heard]
                WATCH.heard.clear()
                if index % LOOK_EVERY == 0:
                    wrong += [f"{index} {kind}: a process {line!r}" for line in WATCH.foreign_processes()]
                left = {path.name for path in folder.iterdir()} - {"fuzz.cu.j2"}
                if left:
                    wrong.append(f"{index} {kind}: wrote {', '.join(sorted(left))}")
                    for path in left:
                        (folder / path).unlink()
        finally:
            os.chdir(before)
            for signal_number, handler in zip(signals, previous, strict=True):
                signal.signal(signal_number, handler)
    return counts, wrong


def main() -> None:
    """Fuzz and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="number of inputs")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations")
    parser.add_argument("--only", choices=[*corpora(), *GROWN], nargs="+", default=(), help="the readers to test")
    parser.add_argument("--seconds", type=int, default=LIMIT_S, help="longest processor time of one input")
    asked = parser.parse_args()
    began = time.perf_counter()
    counts, wrong = fuzz(asked.inputs, asked.seed, asked.only, asked.seconds)
    print(json.dumps(dict(sorted(counts.items())), indent=1))
    print(*wrong[:50], sep="\n")
    print(f"{asked.inputs} inputs in {time.perf_counter() - began:.0f} s; {len(wrong)} went wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
