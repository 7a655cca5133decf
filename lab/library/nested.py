"""The logic of a library as nested tests in C, as the Tensile paper's libraries have it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

from lab.base.sizes import AXES
from lab.library.tree import SPLIT_AXES, Exact, Logic

_INDENT = "    "


def nested_tests(logic: Logic) -> tuple[str, ...]:
    """Return the tests as lines of a C function's body, which return the kernel's number.

    They use the variables m, n and k, and for what is left of a division those of `remainders`. Of a split the side
    with fewer leaves is nested and the other follows it, so that the nesting is no deeper than the logarithm of the
    number of leaves: compilers limit it, and a tree may be as deep as it has sizes.
    """
    return (*_exact(logic.exact), *_splits(logic))


def remainders(logic: Logic) -> tuple[tuple[str, str], ...]:
    """Return (variable, dimension) of each remainder that a threshold stands on."""
    used = sorted({split.axis for split in logic.splits if split.axis >= len(AXES)})
    return tuple((_variable(axis), AXES[axis - len(AXES)]) for axis in used)


def _variable(axis: int) -> str:
    return SPLIT_AXES[axis].replace(" % ", "_mod_")


def _exact(sizes: tuple[Exact, ...]) -> Iterator[str]:
    """Tests for equality, one dimension inside the other."""
    if not sizes:
        return
    yield "switch (m) {"
    for m, of_m in groupby(sizes, attrgetter("m")):
        yield f"case {m}:"
        yield f"{_INDENT}switch (n) {{"
        for n, of_n in groupby(of_m, attrgetter("n")):
            yield f"{_INDENT}case {n}:"
            yield f"{_INDENT * 2}switch (k) {{"
            for one in of_n:
                yield f"{_INDENT * 2}case {one.k}: return {one.kernel};"
            yield f"{_INDENT * 2}}}"
            yield f"{_INDENT * 2}break;"
        yield f"{_INDENT}}}"
        yield f"{_INDENT}break;"
    yield "}"


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
            yield f"{_INDENT * depth}if ({_variable(split.axis)} {sign} {split.threshold}) {{"
            waiting += [(depth, after), (depth, "}"), (depth + 1, inside)]
