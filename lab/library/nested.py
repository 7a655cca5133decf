"""A library's selection logic as nested tests in C, as in the Tensile paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from lab.base.sizes import AXES
from lab.library.tree import BATCH_SPLIT, Exact, Logic, split_axes

_INDENT = "    "


def nested_tests(logic: Logic, axes: Sequence[str] = AXES) -> tuple[str, ...]:
    """Return the body of a C function that returns the kernel's number, as lines.

    They use the dimensions as variables, and for what is left of a division those of `remainders`. Of a split the side
    with fewer leaves is nested and the other follows it, so that the nesting is no deeper than the logarithm of the
    number of leaves: compilers limit it, and a tree may be as deep as it has sizes.

    Args:
        logic: What picks a kernel.
        axes: The dimensions of a size.
    """
    return (*_exact(logic.exact, axes), *_splits(logic))


def remainders(logic: Logic) -> tuple[tuple[str, str], ...]:
    """Return (variable, dimension) of each remainder used by a threshold."""
    used = sorted({split.axis for split in logic.splits if len(AXES) <= split.axis < BATCH_SPLIT})
    return tuple((_variable(logic, axis), AXES[axis - len(AXES)]) for axis in used)


def _variable(logic: Logic, axis: int) -> str:
    return split_axes(logic.vector)[axis].replace(" % ", "_mod_")


def _exact(sizes: Sequence[Exact], axes: Sequence[str], depth: int = 0) -> Iterator[str]:
    """Yield equality tests, one dimension nested in the other.

    Args:
        sizes: In ascending order; they agree in the first `depth` dimensions.
        axes: The dimensions.
        depth: How many were tested.
    """
    if not sizes:
        return
    indent, last = _INDENT * depth, depth + 1 == len(axes)
    yield f"{indent}switch ({axes[depth]}) {{"
    for extent, group in groupby(sizes, lambda exact: exact.size[depth]):
        if last:
            yield f"{indent}case {extent}: return {next(group).kernel};"
            continue
        yield f"{indent}case {extent}:"
        yield from _exact(tuple(group), axes, depth + 1)
        yield f"{indent}{_INDENT}break;"
    yield f"{indent}}}"


def _splits(logic: Logic) -> Iterator[str]:
    leaves = [0] * len(logic.splits)

    def below(to: int) -> int:
        return leaves[to] if to >= 0 else 1

    for i, split in reversed(list(enumerate(logic.splits))):  # a split's sides come after it
        leaves[i] = below(split.below) + below(split.rest)
    waiting: list[tuple[int, int | str]] = [(0, logic.root)]  # depth, and a node or a finished line; the next one last
    while waiting:
        depth, item = waiting.pop()
        if isinstance(item, str):
            yield f"{_INDENT * depth}{item}"
        elif item < 0:
            yield f"{_INDENT * depth}return {~item};"
        else:
            split = logic.splits[item]
            sides = [("<", split.below), (">=", split.rest)]
            (sign, inside), (_, after) = sorted(sides, key=lambda side: below(side[1]))
            yield f"{_INDENT * depth}if ({_variable(logic, split.axis)} {sign} {split.threshold}) {{"
            waiting += [(depth, after), (depth, "}"), (depth + 1, inside)]
