"""The run directory: one crash-safe record a variant, and the files that go with it.

::

    reports/<experiment>/
        run.sqlite            records and the run's own facts; the only source of the report
        variants/<id>/        kernel.cu, kernel.ptx, kernel.sass, kernel.cubin, build.log, provenance.json
        run.lock              who writes here

A record is written once its variant is finished, in one transaction; whatever ends the process, every
finished record is there afterwards. SQLite rather than a file that grows: it recovers by itself from a write that was
cut short (write-ahead log, synced before a transaction counts), replaces a winner's record in place, and reads one
record of ten thousand without the others. A variant's files are written before its record, `provenance.json` with
the sizes of the others last, so that a record whose files the machine lost with its power is recognised.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import platform
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lab.counters import Profile
from lab.emulator.results import ExecutedCounts, Finding, MemoryCount
from lab.errors import StoreError
from lab.expressions import Scalar
from lab.isa.mix import KernelMix
from lab.isa.model import Isa
from lab.limits.bounds import Prediction
from lab.measurement import GpuDescription, Measurement, Merit, Verification
from lab.pipeline import Estimate
from lab.toolchain.base import Resources

PROVENANCE = "provenance.json"
"""The file of a variant that is written last; it holds the sizes of the others."""

SCHEMA = 8
"""Raised when a stored record's shape changes; an older store is refused, never misread."""

READ_TOO = (7,)
"""Older schemas whose records are those of this one without some optional field: 7 had no `profile`."""


class Status(StrEnum):
    """How far a variant came."""

    INSPECTED = "inspected"  # compiled and read; nothing executed it
    VERIFIED = "verified"  # its outputs agree with the reference, on the GPU or on the emulator
    COMPILE_FAILED = "compile failed"
    LAUNCH_FAILED = "launch failed"
    VERIFICATION_FAILED = "verification failed"
    TIMED_OUT = "timed out"
    PRUNED = "pruned"  # a search compiled and inspected it, and found it not worth running

    @property
    def failed(self) -> bool:
        """The variant did not reach the end of the pipeline."""
        return self not in (Status.INSPECTED, Status.VERIFIED, Status.PRUNED)


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """What a compiler made of a variant, without the texts (those are files).

    Attributes:
        toolchain: `nvrtc`, `nvcc`, `pycuda-nvcc`.
        version: Compiler version.
        command: As one could repeat it.
        resources: Of the kernel that is launched; of several, the largest value of each.
        sass_sha256: Hash of the machine code's instructions: equal hashes, equal code.
        seconds: Compile time; from the cache, the time the first build took.
        cached: Taken from the cache in this run.
        disassembler: Version of nvdisasm.
    """

    toolchain: str
    version: str
    command: str
    resources: Resources
    sass_sha256: str
    seconds: float
    cached: bool
    disassembler: str


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """How a variant is launched at the experiment's problem size.

    Attributes:
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        dynamic_shared_bytes: Dynamic shared memory per block.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int


@dataclass(frozen=True, slots=True)
class ExecutedLines:
    """Instructions that were executed alike: most of a kernel's lines share a few sets of counts.

    Attributes:
        lines: PTX lines, in listing order.
        cls: `InstructionClass` value.
        warps: Warp instructions of each line.
        threads: Thread instructions of each line whose guard was true.
        memory: Traffic of each line, by the keys of `ExecutedCounts.memory`.
    """

    lines: tuple[int, ...]
    cls: str
    warps: int
    threads: int
    memory: Mapping[str, MemoryCount]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One launch of a variant that needs several.

    Attributes:
        entry: Its entry point.
        launch: Geometry.
        bytes_moved: Least bytes through DRAM that the template declares for it; None where it declares none.
        resources: Of its kernel.
        ptx: Static mix of its PTX.
        sass: Static mix of its SASS.
        prediction: Its occupancy; None where the GPU table cannot tell.
    """

    entry: str
    launch: LaunchRecord
    bytes_moved: int | None = None
    resources: Resources | None = None
    ptx: KernelMix | None = None
    sass: KernelMix | None = None
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class EmulatedStep:
    """One launch of a sequence as it was executed on the CPU.

    Attributes:
        entry: Entry point that was executed.
        launch: Geometry.
        executed: What was executed; None where the sequence did not come so far.
        hot_loop: What was executed in the PTX's hot loop; None without loops.
    """

    entry: str
    launch: LaunchRecord
    executed: ExecutedCounts | None = None
    hot_loop: ExecutedCounts | None = None


@dataclass(frozen=True, slots=True)
class EmulationRecord:
    """One execution of a variant's PTX on the CPU.

    Attributes:
        problem: The problem at the emulated size, complete.
        launches: What was launched, in order, with its own counts.
        verification: Comparison with NumPy; None where the emulator could not execute the kernel.
        executed: What was executed, over all launches.
        hot_loop: What was executed in the PTX's hot loop of a single launch; None without loops, or with several
            launches, which have a hot loop each.
        findings: Faults: races, bad accesses, divergent barriers.
        steps: Instructions that the interpreter issued.
        notes: What was deliberately not executed.
        unsupported: Why there is no result; empty where there is one.
        lines: How often each instruction was executed; lines that never were are absent.
        bytes_needed: Least DRAM bytes of the problem at the emulated size; 0 where that is not known.
    """

    problem: Mapping[str, Scalar]
    launches: tuple[EmulatedStep, ...]
    verification: Verification | None = None
    executed: ExecutedCounts | None = None
    hot_loop: ExecutedCounts | None = None
    findings: tuple[Finding, ...] = ()
    steps: int = 0
    notes: tuple[str, ...] = ()
    unsupported: str = ""
    lines: tuple[ExecutedLines, ...] = ()
    bytes_needed: int = 0

    @property
    def entry(self) -> str:
        """Entry points that were executed."""
        return ", ".join(step.entry for step in self.launches)

    @property
    def fault(self) -> str:
        """Why the variant is not verified, one line; empty where it is, or where nothing was executed."""
        if self.findings:
            first = self.findings[0]
            more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            return f"emulator: {first.kind} at PTX line {first.line}: {first.detail}{more}"
        if self.verification is not None and not self.verification.passed:
            return f"emulator: {self.verification.worst}"
        return ""


@dataclass(frozen=True, slots=True)
class VariantRecord:
    """One variant's row. Stages that were not reached are None.

    Attributes:
        variant: Id, a short hash of everything that decides its machine code.
        kernel: The kernel's name in the experiment (a ladder's rung), else the template's stem.
        label: What tells this variant from its siblings, short: `unroll=4 padding=0`.
        template: Template path.
        parameters: Every parameter of the template with its value.
        problem: The operator's problem, complete.
        arch: `sm_90`.
        status: How far it came.
        reason: Why it stopped there, one line; empty when nothing failed.
        launch: Geometry; None with several launches.
        build: Where it compiled.
        ptx: Static mix of the PTX; None with several launches.
        sass: Static mix of the SASS; None with several launches.
        prediction: Occupancy and bounds; of several launches the lowest occupancy, and the bounds of all together.
        steps: With several launches each of them, in order; empty where there is one.
        emulation: Execution on the CPU at the experiment's `emulate` size.
        verification: Comparison with NumPy on the GPU.
        measurement: Times.
        flops: Floating-point operations of the problem.
        bytes_moved: Least DRAM bytes of the problem.
        merit: What throughput counts.
        round: Round of a search that tried it: 0 is the sample; None in a run of the whole space.
        mappings: Names of the parameters that are mappings.
        accesses: What the template predicts of its memory accesses (`global.load`, `shared.store`, …): sectors a
            request to global memory, bank conflicts a request to shared memory.
        estimate: Throughput by the model of the schedulers; None where it does not apply, or nothing was executed on
            the CPU.
        profile: What hardware counters said; None where they were not read.
    """

    variant: str
    kernel: str
    label: str
    template: str
    parameters: Mapping[str, Scalar]
    problem: Mapping[str, Scalar]
    arch: str
    status: Status
    reason: str
    flops: int
    bytes_moved: int
    launch: LaunchRecord | None = None
    build: BuildRecord | None = None
    ptx: KernelMix | None = None
    sass: KernelMix | None = None
    prediction: Prediction | None = None
    verification: Verification | None = None
    measurement: Measurement | None = None
    emulation: EmulationRecord | None = None
    merit: Merit = Merit.TFLOPS
    steps: tuple[StepRecord, ...] = ()
    round: int | None = None
    mappings: tuple[str, ...] = ()
    accesses: Mapping[str, float] = field(default_factory=dict)
    estimate: Estimate | None = None
    profile: Profile | None = None

    def mixes(self, isa: Isa) -> tuple[KernelMix, ...]:
        """Static mix of every kernel that is launched, each once, in order."""
        both = [(self.ptx, self.sass), *((step.ptx, step.sass) for step in self.steps)]
        found = [ptx if isa == "ptx" else sass for ptx, sass in both]
        return tuple({mix.name: mix for mix in found if mix}.values())

    def rate(self, ms: float) -> float:
        """Throughput, in the unit of `merit`, of a launch that takes `ms` milliseconds."""
        return self.merit.rate(self.flops, self.bytes_moved, ms)

    @property
    def throughput(self) -> float | None:
        """Measured median throughput in the unit of `merit`, or None where nothing was measured."""
        return None if self.measurement is None else self.rate(self.measurement.samples.median)

    @property
    def tflops(self) -> float | None:
        """Measured median throughput in TFLOP/s, or None where nothing was measured."""
        if self.measurement is None:
            return None
        return self.flops / self.measurement.samples.median / 1e9


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """How a search chose its variants.

    Attributes:
        combinations: Size of the space before constraints, for one problem.
        drawn: Combinations that were drawn at random until the sample was full.
        seed: Of the draw.
        rounds: Variants of each round: the sample first, then the neighbours that each refinement added.
    """

    combinations: int
    drawn: int
    seed: int
    rounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The run's own facts: what was asked, where it ran, and what was not done and why.

    Attributes:
        experiment: Name, the experiment file's stem.
        question: The experiment's question.
        operator: Operator name.
        problem: The fields of the operator's problem that all variants share; complete where there is one problem.
        source: The experiment file's text.
        command: The command that repeats the run.
        started: ISO 8601 with time zone.
        lab_version: Version of this package.
        commit: git commit of the working tree, with `+dirty` where it differs; empty outside git.
        python: Python version and platform.
        packages: Package to version, those that decide a figure.
        gpu: The GPU that measured, else None.
        not_measured: One sentence saying why nothing was measured; empty when something was.
        baseline: Name, library and kernel of the baseline: `cublas (torch 2.11.0, sm80_xmma_gemm…)`; may be empty.
        swept: Names of the parameters that take more than one value, in file order.
        variants: How many variants the experiment has (records may be fewer after an interruption).
        notes: Further sentences that a reader must see.
        problem_axes: Fields by which the problems differ, in file order; empty where there is one problem.
        search: How the variants were chosen; None where the whole space was run.
    """

    experiment: str
    question: str
    operator: str
    problem: Mapping[str, Scalar]
    source: str
    command: str
    started: str
    lab_version: str
    commit: str
    python: str
    packages: Mapping[str, str]
    gpu: GpuDescription | None
    not_measured: str
    baseline: str
    swept: tuple[str, ...]
    variants: int
    notes: tuple[str, ...] = ()
    problem_axes: tuple[str, ...] = ()
    search: SearchRecord | None = None


# JSON has no infinity and no NaN; an error can be either, and null would lose which
for _record in (VariantRecord, RunRecord):
    _record.__pydantic_config__ = ConfigDict(ser_json_inf_nan="strings")  # type: ignore[union-attr]
_VARIANT = TypeAdapter(VariantRecord)
_RUN = TypeAdapter(RunRecord)


def record_to_json(record: VariantRecord | RunRecord) -> dict[str, object]:
    """The record as plain JSON values, as `records.json` holds it."""
    adapter: TypeAdapter[VariantRecord] | TypeAdapter[RunRecord]
    adapter = _VARIANT if isinstance(record, VariantRecord) else _RUN
    value: dict[str, object] = json.loads(adapter.dump_json(record))  # type: ignore[arg-type]
    return value


class Lock:
    """The right to write into a run directory, held by one process at a time; its death ends it."""

    def __init__(self, folder: Path) -> None:
        """Take it.

        Raises:
            StoreError: another process holds it, or the directory cannot be written.
        """
        path = folder / "run.lock"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise StoreError(
                f"{folder} is in use by {holder}; wait for it, or choose another directory with --output"
            ) from error
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {platform.node()} since {now}\n")
        self._file.flush()

    def release(self) -> None:
        """Give it back."""
        self._file.close()


def record_to_text(record: VariantRecord | RunRecord) -> str:
    """The record as JSON text."""
    adapter: TypeAdapter[VariantRecord] | TypeAdapter[RunRecord]
    adapter = _VARIANT if isinstance(record, VariantRecord) else _RUN
    return adapter.dump_json(record).decode()  # type: ignore[arg-type]


class Store:
    """A run directory, opened for one process. Use as a context manager."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open the directory: to write, which one process can do at a time, or to read.

        Args:
            folder: The run directory.
            create: Make it, and the database, where they are missing; and write.

        Raises:
            StoreError: it is missing, unreadable, written by another schema of this program, or in use.
        """
        self.folder, self.damage = folder, ""
        path = folder / "run.sqlite"
        if not create and not path.is_file():
            raise StoreError(f"{folder} holds no run: there is no run.sqlite; `lab run` makes one")
        self._lock = Lock(folder) if create else None
        try:
            try:
                found = self._open(path)
            except sqlite3.DatabaseError as error:
                if not create or isinstance(error, sqlite3.OperationalError):
                    raise
                self._set_aside(path, error)
                found = self._open(path)
        except (sqlite3.Error, OSError) as error:
            self._unlock()
            raise StoreError(f"{path} cannot be opened: {error}") from error
        if found != SCHEMA:
            self.close()
            raise StoreError(f"{path} has schema {found}, this program writes {SCHEMA}; remove {folder} and run again")

    def _open(self, path: Path) -> int:
        """Connect; the schema that the database has."""
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE IF NOT EXISTS run (key TEXT PRIMARY KEY, json TEXT NOT NULL)")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS records (variant TEXT PRIMARY KEY, position INTEGER NOT NULL, "
            "json TEXT NOT NULL)"
        )
        state = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if found == 0 or (found in READ_TOO and self._lock is not None):  # what is written from now on is of this one
            self._db.execute(f"PRAGMA user_version={SCHEMA}")
            return SCHEMA
        return SCHEMA if found in READ_TOO else found

    def _set_aside(self, path: Path, error: sqlite3.DatabaseError) -> None:
        """Rename a database that is damaged: what it holds cannot be trusted, and all of it can be made again."""
        self._db.close()
        kept = path.with_name(f"{path.name}.damaged")
        path.replace(kept)
        for companion in ("-wal", "-shm"):
            path.with_name(path.name + companion).unlink(missing_ok=True)
        self.damage = f"The database of an earlier run was damaged ({error}); it is kept as {kept.name}."

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; afterwards one file holds it all."""
        with contextlib.suppress(sqlite3.Error):  # on a full disk, say: the log keeps what is not merged yet
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def clear(self) -> None:
        """Forget everything: a new run of the experiment begins."""
        self._write("DELETE FROM records", ())
        self._write("DELETE FROM run WHERE key<>'run'", ())  # the facts are replaced when they are written

    def note(self, key: str, value: object) -> None:
        """Remember a fact of the run's own, as JSON, under a key other than `run`."""
        self._write("INSERT OR REPLACE INTO run VALUES (?, ?)", (key, json.dumps(value)))

    def noted(self, key: str) -> Any:  # noqa: ANN401 - JSON
        """What `note` remembered; None where there is nothing."""
        rows = self._read("SELECT json FROM run WHERE key=?", key)
        return json.loads(rows[0]) if rows else None

    def write_run(self, run: RunRecord) -> None:
        """Store the run's facts, replacing what was there."""
        self._write("INSERT OR REPLACE INTO run VALUES ('run', ?)", (_RUN.dump_json(run).decode(),))

    def write(self, record: VariantRecord, position: int) -> None:
        """Store one variant's record, replacing an earlier one.

        Args:
            record: The record.
            position: The variant's place in the experiment, from 0; records are read in this order.
        """
        self._write(
            "INSERT OR REPLACE INTO records VALUES (?, ?, ?)",
            (record.variant, position, _VARIANT.dump_json(record).decode()),
        )

    def place(self, variant: str, position: int) -> None:
        """Put a record that is there already where it now belongs: the experiment may have grown since."""
        self._write("UPDATE records SET position=? WHERE variant=? AND position<>?", (position, variant, position))

    def drop_others(self, variants: Collection[str]) -> None:
        """Remove the records of all other variants: the experiment has them no more."""
        present = self._read("SELECT variant FROM records")
        for variant in set(present) - set(variants):
            self._write("DELETE FROM records WHERE variant=?", (variant,))

    def run(self) -> RunRecord:
        """The run's facts.

        Raises:
            StoreError: there are none, or they cannot be read.
        """
        rows = self._read("SELECT json FROM run WHERE key='run'")
        if not rows:
            raise StoreError(f"{self.folder} holds no run: the database is empty")
        try:
            return _RUN.validate_json(rows[0])
        except ValidationError as error:
            raise StoreError(f"{self.folder}: the run's facts cannot be read: {error}") from error

    def records(self) -> tuple[VariantRecord, ...]:
        """Every finished record, in the experiment's order."""
        with uncollected():
            return tuple(self.each())

    def each(self) -> Iterator[VariantRecord]:
        """Every finished record, in the experiment's order, one at a time."""
        try:
            yield from map(_VARIANT.validate_json, self.texts())
        except ValidationError as error:
            raise StoreError(f"{self.folder}: a record cannot be read: {error}") from error

    def texts(self) -> Iterator[str]:
        """Every finished record as its JSON text, in the experiment's order, one at a time."""
        try:
            for row in self._db.execute("SELECT json FROM records ORDER BY position, variant"):
                yield row[0]
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / 'run.sqlite'} cannot be read: {error}") from error

    @contextlib.contextmanager
    def unchanging(self) -> Iterator[None]:
        """All that is read within is of one moment, even while another process goes on writing."""
        self._write("BEGIN", ())
        try:
            yield
        finally:
            self._write("ROLLBACK", ())  # nothing was written

    def whole_records(self) -> dict[str, VariantRecord]:
        """Finished records by variant, without those whose files are missing or cut short."""
        return {record.variant: record for record in self.records() if self._files_are_whole(record.variant)}

    def _files_are_whole(self, variant: str) -> bool:
        folder = self.variant_folder(variant)
        try:
            sizes = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))["sizes"]
            return all((folder / name).stat().st_size == size for name, size in sizes.items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def record(self, variant: str) -> VariantRecord:
        """One variant's record.

        Raises:
            StoreError: there is none, or it cannot be read.
        """
        rows = self._read("SELECT json FROM records WHERE variant=?", variant)
        if not rows:
            raise StoreError(f"{self.folder} holds no variant {variant}")
        try:
            return _VARIANT.validate_json(rows[0])
        except ValidationError as error:
            raise StoreError(f"{self.folder}: a record cannot be read: {error}") from error

    def count(self) -> int:
        """How many records there are."""
        return int(self._read("SELECT count(*) FROM records")[0])

    def read_file(self, variant: str, name: str) -> bytes:
        """One of a variant's files.

        Raises:
            StoreError: it is missing or cannot be read.
        """
        path = self.variant_folder(variant) / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error

    def variant_folder(self, variant: str) -> Path:
        """Where a variant's files are."""
        return self.folder / "variants" / variant

    def write_files(self, variant: str, files: Mapping[str, str | bytes]) -> None:
        """Write a variant's files in this order, each whole or not at all."""
        folder = self.variant_folder(variant)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                write_atomically(folder / name, content)
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error}") from error

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / 'run.sqlite'} cannot be written: {error}") from error

    def _read(self, statement: str, *values: object) -> list[str]:
        try:
            return [row[0] for row in self._db.execute(statement, values)]
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / 'run.sqlite'} cannot be read: {error}") from error


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector of cycles, which would look at every record again and again; records have none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def write_atomically(path: Path, content: str | bytes | Iterator[str]) -> None:
    """Write a file so that a reader sees the old content or the new, never a part.

    Args:
        path: The file.
        content: All of it, or its parts, so that it need not be in memory at once.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            if isinstance(content, bytes):
                stream.write(content)
            else:
                stream.writelines(part.encode() for part in ((content,) if isinstance(content, str) else content))
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
