"""Mechanical changes of a CUDA source, each a remedy for a performance finding.

An edit is a guess from the text: whoever proposes it must compile and execute it first. Edits that rest on what the
text cannot show, such as an address's alignment, say so in their title.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from lab.advice.finding import PerformanceFinding, Rule
from lab.advice.paddings import padded_arrays, pads_of
from lab.emulator.results import AccessPattern
from lab.isa.cuda.kernels import SourceKernel, SourceParameter, read_kernels
from lab.isa.cuda.struct_declarations import elements_of, read_structures
from lab.isa.cuda.syntax_tree import parse, span, walk, written

_LOOPS: Final = frozenset({"for_statement", "while_statement", "do_statement"})
_UNROLL: Final = 4
_WIDEST: Final = 16
_FULL_UNROLL: Final = re.compile(r"(#\s*pragma\s+unroll)[ \t]*(?=\n|$)", re.MULTILINE)
_ANY_UNROLL: Final = re.compile(r"(#\s*pragma\s+unroll)\b[^\n]*")
_DOUBLE: Final = re.compile(r"(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?\Z")
_BARRIER: Final = re.compile(r"\b__syncthreads\s*\(\s*\)\s*;")
_CONSTANT: Final = "__constant__"


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """One change of a source.

    Attributes:
        title: The change in a few words, imperative: `pad tile by 1 element per row`.
        text: The whole source with the change.
    """

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class EditContext:
    """A kernel and what is known of its launch.

    Attributes:
        source: CUDA C++.
        kernel: Name of the kernel that is launched.
        patterns: Addresses of its accesses.
        threads: Threads per block.
        blocks_per_sm: Blocks that an SM holds.
    """

    source: str
    kernel: str
    patterns: Sequence[AccessPattern] = ()
    threads: int = 0
    blocks_per_sm: int = 0

    @property
    def source_kernel(self) -> SourceKernel | None:
        """The kernel in the source; None where it has no such kernel, or several."""
        kernels = read_kernels(self.source)
        named = [kernel for kernel in kernels if kernel.name == self.kernel] or list(kernels)
        return named[0] if len(named) == 1 else None


def edits(context: EditContext, finding: PerformanceFinding) -> Iterator[SourceEdit]:
    """Yield the changes that may remove the cause of a finding, the smallest first; none for most rules."""
    make = _EDITS.get(finding.rule)
    if make is not None:
        yield from (edit for edit in make(context, finding) if edit.text != context.source)


def _pad(context: EditContext, _: PerformanceFinding) -> Iterator[SourceEdit]:
    for name, elements, text in padded_arrays(context.source, pads_of(context.patterns)):
        yield SourceEdit(f"pad {name} by {elements} element{'s' if elements > 1 else ''} per row", text)


def _unroll(context: EditContext, finding: PerformanceFinding) -> Iterator[SourceEdit]:
    loop = next(iter(_loops_around(context, finding)), None)
    if loop is not None:
        yield SourceEdit(f"unroll the loop by {_UNROLL}", _with_pragma(context.source, loop, f" {_UNROLL}"))


def _unroll_less(context: EditContext, finding: PerformanceFinding) -> Iterator[SourceEdit]:
    for loop in _loops_around(context, finding):
        start, stop = _before(context.source, loop)
        changed = _FULL_UNROLL.sub(rf"\1 {_UNROLL}", context.source[start:stop])
        yield SourceEdit(f"unroll the loop by {_UNROLL} only", context.source[:start] + changed + context.source[stop:])


def _keep_in_registers(context: EditContext, finding: PerformanceFinding) -> Iterator[SourceEdit]:
    """Yield a launch bound that leaves more registers; then loops unrolled as a whole, so that indices are constant."""
    kernel = context.source_kernel
    if kernel is not None and len(kernel.launch_bounds) > 1:
        kept = f"__launch_bounds__({kernel.launch_bounds[0]})"
        yield SourceEdit("drop the second argument of __launch_bounds__", _with_bounds(context.source, kernel, kept))
    for loop in _loops_around(context, finding):
        yield SourceEdit("unroll the loop as a whole", _with_pragma(context.source, loop, ""))


def _bound(context: EditContext, _: PerformanceFinding) -> Iterator[SourceEdit]:
    kernel = context.source_kernel
    if kernel is not None and context.threads and context.blocks_per_sm:
        bounds = f"__launch_bounds__({context.threads}, {context.blocks_per_sm + 1})"
        yield SourceEdit(f"bound the registers by {bounds}", _with_bounds(context.source, kernel, bounds))


def _align(context: EditContext, finding: PerformanceFinding) -> Iterator[SourceEdit]:
    """Yield alignments with which the compiler merges neighbouring loads into one of up to 16 bytes."""
    yield from _align_structure(context, finding)
    kernel = context.source_kernel
    names = _names_at(context, finding)
    for parameter in kernel.parameters if kernel is not None else ():
        if kernel is not None and parameter.pointer == 1 and parameter.dtype is not None and parameter.name in names:
            start = kernel.body[0] + 1
            kind = parameter.c_type.replace(" *", "*")
            promise = f"static_cast<{kind}>(__builtin_assume_aligned({parameter.name}, {_WIDEST}))"
            text = f"{context.source[:start]}\n    {parameter.name} = {promise};{context.source[start:]}"
            yield SourceEdit(
                f"promise that {parameter.name} is aligned to {_WIDEST} bytes (launches must keep it)", text
            )


def _align_structure(context: EditContext, finding: PerformanceFinding) -> Iterator[SourceEdit]:
    """Yield an alignment of the structure that a line reads, where its size is that of a wide load."""
    kernel = context.source_kernel
    structures = read_structures(context.source)
    names = _names_at(context, finding)
    for parameter in kernel.parameters if kernel is not None else ():
        members = elements_of(parameter, structures)
        size = sum(_bytes_of(member) for member in members)
        if parameter.name not in names or len(members) < _FEWEST_MEMBERS or size not in (_WIDEST // 2, _WIDEST):
            continue
        name = parameter.c_type.replace("const", " ").replace("struct", " ").strip("* ").rpartition("::")[2]
        text = re.sub(rf"\bstruct\s+{re.escape(name)}\s*(?={{)", f"struct __align__({size}) {name} ", context.source)
        yield SourceEdit(f"align {name} to {size} bytes, its size (also in the host code)", text)


_FEWEST_MEMBERS: Final = 2


def _bytes_of(member: SourceParameter) -> int:
    digits = re.search(r"(\d+)\Z", member.dtype or "")
    return int(digits[1]) // 8 * member.lanes if digits else 0


def _out_of_constant_memory(context: EditContext, finding: PerformanceFinding) -> Iterator[SourceEdit]:
    """Yield copies of a table to shared memory, which serves a warp's different words at once."""
    kernel, text = context.source_kernel, context.source
    for name in sorted(_names_at(context, finding)) if kernel is not None else ():
        declared = re.search(
            rf"{_CONSTANT}\s+(?:const\s+)?([\w:]+(?:\s+\w+)*)\s+{re.escape(name)}\s*\[([^\[\];]+)\]\s*[;={{]", text
        )
        if kernel is None or declared is None:
            continue
        (start, stop), copy = kernel.body, f"{name}_shared"
        body = re.sub(rf"\b{re.escape(name)}(?=\s*\[)", copy, text[start + 1 : stop])
        first = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
        step = "blockDim.x * blockDim.y * blockDim.z"
        staged = (
            f"\n    __shared__ {declared[1]} {copy}[{declared[2]}];"
            f"\n    for (int word = {first}; word < {declared[2]}; word += {step}) {copy}[word] = {name}[word];"
            "\n    __syncthreads();"
        )
        yield SourceEdit(
            f"copy {name} to shared memory at the start of the kernel",
            f"{text[: start + 1]}{staged}{body}{text[stop:]}",
        )


def _single_precision(context: EditContext, finding: PerformanceFinding) -> Iterator[SourceEdit]:
    line = finding.place.line
    nodes = [node for node in parse(context.source).find("number_literal") if _DOUBLE.match(written(node))]
    for title, chosen in (
        ("write the line's literals in float", [node for node in nodes if node.start_point.row + 1 == line]),
        ("write literals in float", nodes),
    ):
        text = context.source
        for _, stop in sorted((span(node) for node in chosen), reverse=True):
            text = f"{text[:stop]}f{text[stop:]}"
        yield SourceEdit(title, text)


def _without_barrier(context: EditContext, finding: PerformanceFinding) -> Iterator[SourceEdit]:
    lines = context.source.splitlines(keepends=True)
    at = finding.place.line - 1
    if not 0 <= at < len(lines) or (barrier := _BARRIER.search(lines[at])) is None:
        return
    start, stop = barrier.span()
    before, after = lines[at][:start], lines[at][stop:]
    removed = before + after.removeprefix(" ") if (before + after).strip() else ""
    for title, changed in (
        ("remove the barrier", removed),
        ("synchronise the warp alone", f"{before}__syncwarp();{after}"),
    ):
        yield SourceEdit(title, "".join([*lines[:at], changed, *lines[at + 1 :]]))


_EDITS: Final[dict[Rule, Callable[[EditContext, PerformanceFinding], Iterator[SourceEdit]]]] = {
    Rule.BANK_CONFLICT: _pad,
    Rule.LATENCY: _unroll,
    Rule.CODE_SIZE: _unroll_less,
    Rule.LOCAL_MEMORY: _keep_in_registers,
    Rule.OCCUPANCY: _bound,
    Rule.NARROW_LOADS: _align,
    Rule.UNCOALESCED: _align,
    Rule.DIVERGENT_CONSTANT: _out_of_constant_memory,
    Rule.DOUBLE_PRECISION: _single_precision,
    Rule.REDUNDANT_BARRIER: _without_barrier,
}


def _loops_around(context: EditContext, finding: PerformanceFinding) -> list[Node]:
    """Return the loops that a finding's line is in, the innermost first."""
    line = finding.place.line
    around = [
        node
        for node in parse(context.source).find(*_LOOPS)
        if node.start_point.row + 1 <= line <= node.end_point.row + 1
    ]
    return sorted(around, key=lambda node: node.end_byte - node.start_byte)


def _before(source: str, loop: Node) -> tuple[int, int]:
    """Return the range from the end of the statement before a loop to the loop: its pragmas and conditions."""
    start, _ = span(loop)
    begin = max(source.rfind(end, 0, start) for end in ";{}") + 1
    return begin, start


def _with_pragma(source: str, loop: Node, factor: str) -> str:
    """Return a source whose loop has a pragma with an unroll factor, in place of one that it has."""
    start, stop = _before(source, loop)
    before = source[start:stop]
    if _ANY_UNROLL.search(before):
        return source[:start] + _ANY_UNROLL.sub(rf"\1{factor}", before) + source[stop:]
    line_start = source.rfind("\n", 0, stop) + 1
    indent = source[line_start:stop]
    if indent.strip():  # something stands on the line before the loop
        return f"{source[:stop]}\n#pragma unroll{factor}\n{source[stop:]}"
    return f"{source[:line_start]}{indent}#pragma unroll{factor}\n{source[line_start:]}"


def _with_bounds(source: str, kernel: SourceKernel, bounds: str) -> str:
    """Return a source whose kernel has launch bounds, in place of those that it has."""
    head = max(source.rfind("__global__", 0, kernel.body[0]), 0)
    signature = source[head : kernel.body[0]]
    if "__launch_bounds__" in signature:
        changed = re.sub(r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)", bounds, signature, count=1)
    else:
        changed = re.sub(rf"\b{re.escape(kernel.name)}\s*\(", lambda match: f"{bounds} {match[0]}", signature, count=1)
    return source[:head] + changed + source[kernel.body[0] :]


def _names_at(context: EditContext, finding: PerformanceFinding) -> frozenset[str]:
    """Return the names that are indexed, or whose members are read, on a finding's line."""
    line, names = finding.place.line, set[str]()
    for node in parse(context.source).find("subscript_expression", "pointer_expression"):
        if node.start_point.row + 1 <= line <= node.end_point.row + 1:
            names.update(written(inner) for inner in walk(node) if inner.type == "identifier")
    return frozenset(names)
