"""Specialise a template's launches to one kernel: expressions of sizes and factors alone.

A front matter's expressions know parameters and problem. Here everything but sizes and factors becomes a number, and
what depends on numbers alone is computed. What is left is an expression again, which `lab.base.expressions` evaluates
and which `lab.library.emit` writes in C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate, names_in
from lab.base.sizes import AXES, BATCH_AXES
from lab.base.yamlfile import Key, dotted
from lab.hardware.tensormaps import MOST_BOX, SWIZZLES
from lab.library.meaning import Meaning, interpreted
from lab.library.package import BATCH_SIZES, FACTORS, SIZES, LibraryBuffer, LibraryKernel, LibraryLaunch, LibraryMap
from lab.operators.gemm import GemmProblem
from lab.templates.front_matter import TENSOR_MAP, Template
from lab.templates.instance import Instance
from lab.templates.launch_rules import (
    CARVEOUTS,
    DeclaredLaunch,
    Expression,
    LaunchCondition,
    Scope,
    buffers,
    declared,
    without,
    xyz,
)
from lab.templates.launches import RESIDENT_BLOCKS

_MATRIX = 2
"""Number of dimensions of a library's tensor maps."""

_RUN_TIME = frozenset((*SIZES, *FACTORS))
_OF_BATCHES = frozenset(BATCH_SIZES)
"""Names allowed in a template's expressions if they vanish for an unbatched GEMM."""
_IN_A_GRID = frozenset((RESIDENT_BLOCKS,))


def kernel(
    name: str,
    *,
    cubin: str,
    template: Template,
    parameters: Mapping[str, Scalar],
    dtype: str,
    layout: str,
    batched: bool = False,
) -> LibraryKernel:
    """Describe one kernel for a library.

    Args:
        name: What the logic calls it.
        cubin: Name of its file.
        template: Where it comes from.
        parameters: All of the template's.
        dtype: Element type.
        layout: BLAS letters.
        batched: The kernel computes a batch of products in one launch.

    Raises:
        UserError: An expression uses a name that is known neither now nor when the kernel is launched, or an operation
            on sizes that C lacks.
    """
    size = dict.fromkeys(BATCH_AXES if batched else AXES, 1)
    problem = GemmProblem.of({**size, "dtype": dtype, "layout": layout})
    names = Instance(
        template, parameters, {key: value for key, value in problem.items() if isinstance(value, str)}
    ).names
    scope = Scope(names, frozenset(), lambda path: template.document.at(*path), dtype)
    constants = {name: value for name, value in names.items() if isinstance(value, bool | int | float | str)}
    special = _Specialiser(constants, template, _RUN_TIME | _OF_BATCHES if batched else _RUN_TIME)
    workspace = tuple(
        LibraryBuffer(
            buffer.name, scope.typed(buffer.dtype), special(buffer.elements, ("workspace", buffer.name)), buffer.zero
        )
        for buffer in buffers(template.declares)
    )
    absent = frozenset(buffer.name for buffer in workspace if buffer.elements == "0")
    specialised = (special.launch(launch, scope) for launch in declared(template.declares))
    launches = without((launch for launch in specialised if launch is not None), absent)
    map_names = dict.fromkeys(one for launch in launches for one, kind in launch.arguments if kind == TENSOR_MAP)
    return LibraryKernel(
        name,
        cubin,
        template.name,
        dict(parameters),
        launches,
        tuple(buffer for buffer in workspace if buffer.name not in absent),
        tuple(special.tensor_map(map_name, scope) for map_name in map_names),
        special.requirements(),
    )


@dataclass(frozen=True)
class _Specialiser:
    """Substitute known values into expressions."""

    known: Mapping[str, Scalar]
    template: Template
    run_time: frozenset[str]

    def __call__(self, expression: Expression, path: Key, later: frozenset[str] = frozenset()) -> str:
        """Return the expression with sizes, factors and the names in `later` as its only names."""
        if not isinstance(expression, str):
            return literal(expression)
        at, key = self.template.document.at(*path), dotted(path)
        passed = self.known.keys() | self.run_time | later

        def check(text: str, allowed: AbstractSet[str]) -> None:
            if unknown := sorted(names_in(text, at=at, key=key) - allowed):
                accepted = sorted(passed)
                raise UserError(
                    "a library cannot know this name",
                    code="unsupported",
                    at=at,
                    key=key,
                    found=unknown[0],
                    accepted=accepted,
                )

        check(expression, passed | _OF_BATCHES)
        specialised = interpreted(expression, _Specialised(self.known, at, key), at=at, key=key).text
        check(specialised, passed)
        return specialised

    def launch(self, declared_launch: DeclaredLaunch, scope: Scope) -> LibraryLaunch | None:
        """Specialise a launch; None if its conditions are false for every size."""
        condition = self._condition(declared_launch.conditions)
        if condition == "false":
            return None
        grid = xyz(
            [self(size, (*declared_launch.path, "grid", i), _IN_A_GRID) for i, size in enumerate(declared_launch.grid)],
            "1",
        )
        block = xyz(
            [self(size, (*declared_launch.path, "block", i)) for i, size in enumerate(declared_launch.block)], "1"
        )
        shared = self(declared_launch.shared_bytes, (*declared_launch.path, "shared_bytes"))
        self._check_carveout(declared_launch)
        self._check_cluster(declared_launch)
        arguments = tuple(
            (word, scope.typed(kind))
            for name, kind in declared_launch.arguments
            for word in scope.words(name, (*declared_launch.path, "arguments", name))
        )
        return LibraryLaunch(
            declared_launch.entry,
            grid,
            block,
            shared,
            arguments,
            "" if condition == "true" else condition,
            declared_launch.main,
        )

    def tensor_map(self, name: str, scope: Scope) -> LibraryMap:
        """Specialise a tensor map; its box must not depend on sizes."""
        declares, path = self.template.declares.tensor_maps[name], ("tensor_maps", name)
        if not len(declares.extents) == len(declares.box) == _MATRIX:
            sides, accepted = (*path, "extents"), "maps of matrices, of two dimensions"
            raise scope.error("a library encodes no such map", sides, found=declares.extents, accepted=accepted)
        first, second = (self(size, (*path, "extents", i)) for i, size in enumerate(declares.extents))
        rows, columns = (scope.size(size, (*path, "box", i), most=MOST_BOX) for i, size in enumerate(declares.box))
        return LibraryMap(
            name,
            " ".join(scope.words(declares.of, (*path, "of"))),
            scope.typed(declares.type),
            (first, second),
            self(declares.leading, (*path, "leading")),
            (rows, columns),
            scope.size(declares.swizzle, (*path, "swizzle"), most=max(SWIZZLES)),
        )

    def requirements(self) -> str:
        """Return the template's requirements on sizes; requirements on parameters alone are already met."""
        parts = []
        for i, requirement in enumerate(self.template.declares.requires):
            at, path = self.template.document.at("requires", i), ("requires", i)
            if names_in(requirement.that, at=at, key=dotted(path)) & self.run_time:
                parts.append(self(requirement.that, path))
        return " and ".join(text for text in parts if text != "true")

    def _check_carveout(self, declared_launch: DeclaredLaunch) -> None:
        """Check that a launch sets no carve-out: library calls set none."""
        path = (*declared_launch.path, "carveout")
        preferred = (
            declared_launch.carveout if declared_launch.carveout in CARVEOUTS else self(declared_launch.carveout, path)
        )
        if preferred not in ("default", "-1"):
            at = self.template.document.at(*path)
            message = "a library leaves the carve-out to the driver"
            raise UserError(message, code="unsupported", at=at, key=dotted(path), found=preferred, accepted="default")

    def _check_cluster(self, declared_launch: DeclaredLaunch) -> None:
        """Check that a launch sets no cluster size: library calls set none."""
        if declared_launch.cluster:
            path = (*declared_launch.path, "cluster")
            at, cluster = self.template.document.at(*path), ", ".join(map(str, declared_launch.cluster))
            message = "a library's calls ask for no clusters"
            raise UserError(
                message,
                code="unsupported",
                at=at,
                key=dotted(path),
                found=cluster,
                accepted="__cluster_dims__ in the kernel",
            )

    def _condition(self, conditions: Sequence[LaunchCondition]) -> str:
        if not conditions:
            return "true"
        parts = [
            f"({condition.expression})" if condition.holds else f"not ({condition.expression})"
            for condition in conditions
        ]
        return self(" and ".join(parts), conditions[-1].path)


@dataclass(frozen=True, slots=True)
class _Term:
    """A subexpression as text.

    Attributes:
        text: The part.
        known: No size or factor is in it, so that it is a constant.
    """

    text: str
    known: bool


@dataclass(frozen=True)
class _Specialised(Meaning[_Term]):
    """An interpretation as text, in parentheses, with constants folded."""

    values: Mapping[str, Scalar]
    at: Location
    key: str

    def constant(self, value: Scalar) -> _Term:
        return _Term(literal(value), known=True)

    def name(self, name: str) -> _Term:
        if name in self.values:
            return _Term(literal(self.values[name]), known=True)
        return _Term(name, known=False)

    def negative(self, value: _Term) -> _Term:
        return self._made(f"(-{value.text})", value)

    def inverse(self, value: _Term) -> _Term:
        return self._made(f"(not {value.text})", value)

    def binary(self, symbol: str, left: _Term, right: _Term) -> _Term:
        if symbol in ("and", "or"):
            return self._made(_shortened(symbol, left.text, right.text), left, right)
        if symbol == "**" and left.text.startswith("-"):  # -2 ** 2 is -(2 ** 2)
            left = _Term(f"({left.text})", left.known)
        if symbol == "*" and right.text == "1":
            return left
        return self._made(f"({left.text} {symbol} {right.text})", left, right)

    def comparison(self, first: _Term, following: Sequence[tuple[str, _Term]]) -> _Term:
        tail = "".join(f" {symbol} {term.text}" for symbol, term in following)
        return self._made(f"({first.text}{tail})", first, *(term for _, term in following))

    def choice(self, test: _Term, then: Callable[[], _Term], otherwise: Callable[[], _Term]) -> _Term:
        if test.text in ("true", "false"):
            return then() if test.text == "true" else otherwise()
        chosen, alternative = then(), otherwise()
        return self._made(f"({chosen.text} if {test.text} else {alternative.text})", test, chosen, alternative)

    def call(self, function: str, arguments: Sequence[_Term]) -> _Term:
        return self._made(f"{function}({', '.join(term.text for term in arguments)})", *arguments)

    def listing(self, values: Sequence[_Term]) -> _Term:
        return _Term(f"[{', '.join(term.text for term in values)}]", all(term.known for term in values))

    def pairs(self, values: Sequence[tuple[_Term, _Term]]) -> _Term:
        text = ", ".join(f"{name.text}: {value.text}" for name, value in values)
        return _Term(f"{{{text}}}", all(name.known and value.known for name, value in values))

    def item(self, value: _Term, index: _Term) -> _Term:
        return self._made(f"{value.text}[{index.text}]", value, index)

    def _made(self, text: str, *parts: _Term) -> _Term:
        if text in ("true", "false"):  # of `and` or `or` whose other side decides nothing
            return _Term(text, known=True)
        if not all(term.known for term in parts):
            return _Term(text, known=False)
        return _Term(literal(evaluate(text, {}, at=self.at, key=self.key)), known=True)


def _shortened(symbol: str, left: str, right: str) -> str:
    """Return `and` or `or` of two texts, with constant operands folded."""
    neutral, deciding = ("true", "false") if symbol == "and" else ("false", "true")
    if deciding in (left, right):
        return deciding
    if left == neutral:
        return right
    if right == neutral:
        return left
    return f"({left} {symbol} {right})"


def literal(value: Scalar) -> str:
    """Return a constant in the notation of expressions."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
