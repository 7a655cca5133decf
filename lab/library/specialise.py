"""A template's launches for one kernel and every size: expressions in which only the sizes are left.

A front matter's expressions know parameters and problem; here all of these but sizes and factors become numbers, and
what depends on them alone is computed. What is left is Jinja text again, which `lab.base.expressions` evaluates, and
which `to_c` writes in C; both mean 64-bit integers, with `//` and `%` rounding towards minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from jinja2 import nodes

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, environment, evaluate, names_in
from lab.library.package import FACTORS, SIZES, LibraryBuffer, LibraryKernel, LibraryLaunch
from lab.templates.front_matter import Template, compile_time_names

_RUN_TIME = frozenset((*SIZES, *FACTORS))
_INFIX: dict[type[nodes.BinExpr], str] = {
    nodes.Add: "+",
    nodes.Sub: "-",
    nodes.Mul: "*",
    nodes.Div: "/",
    nodes.FloorDiv: "//",
    nodes.Mod: "%",
    nodes.Pow: "**",
    nodes.And: "and",
    nodes.Or: "or",
}
_C_BINARY: dict[type[nodes.BinExpr], str] = {
    nodes.Add: "({} + {})",
    nodes.Sub: "({} - {})",
    nodes.Mul: "({} * {})",
    nodes.FloorDiv: "floor_div({}, {})",
    nodes.Mod: "floor_mod({}, {})",
    nodes.And: "({} && {})",
    nodes.Or: "({} || {})",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in"}
_FUNCTIONS = {"ceil_div": 2, "min": 2, "max": 2, "abs": 1}
"""Those that an expression of sizes may call, and how many arguments C's have."""

_ENVIRONMENT = environment()


def kernel(
    name: str, *, cubin: str, template: Template, parameters: Mapping[str, Scalar], dtype: str, layout: str
) -> LibraryKernel:
    """What a library needs to know of one kernel.

    Args:
        name: As the logic knows it.
        cubin: Its file's name.
        template: Where it comes from.
        parameters: All of the template's.
        dtype: Element type.
        layout: BLAS letters.

    Raises:
        UserError: an expression uses what is known neither now nor when the kernel is launched, or does with sizes
            what C cannot.
    """
    problem = {"dtype": dtype, "layout": layout}
    names = compile_time_names(template, parameters, problem)
    fixed = _Specialiser({k: v for k, v in names.items() if isinstance(v, bool | int | float | str)}, template)
    workspace = tuple(
        LibraryBuffer(key, buffer.type.replace("T", dtype), fixed(buffer.elements, ("workspace", key)), buffer.zero)
        for key, buffer in template.declares.workspace.items()
    )
    absent = {buffer.name for buffer in workspace if buffer.elements == "0"}  # as `lab.templates.launches` has it
    launches = tuple(
        replace(launch, arguments=tuple(pair for pair in launch.arguments if pair[0] not in absent))
        for launch in _launches(template, fixed, dtype)
        if launch is not None
    )
    made = tuple(buffer for buffer in workspace if buffer.name not in absent)
    return LibraryKernel(name, cubin, template.name, dict(parameters), launches, made)


def _launches(template: Template, fixed: _Specialiser, dtype: str) -> list[LibraryLaunch | None]:
    declares = template.declares

    def made(
        entry: str,
        *,
        grid: list[str | int],
        block: list[str | int],
        shared: str | int,
        arguments: Mapping[str, str],
        when: str,
    ) -> LibraryLaunch | None:
        condition = fixed(when, ("when",)) if when else "true"
        if condition == "false":
            return None
        gx, gy, gz = [*(fixed(e, ("grid",)) for e in grid), "1", "1"][:3]
        bx, by, bz = [*(fixed(e, ("block",)) for e in block), "1", "1"][:3]
        kinds = tuple((name, kind.replace("T", dtype)) for name, kind in arguments.items())
        return LibraryLaunch(
            entry, (gx, gy, gz), (bx, by, bz), fixed(shared, ("shared_bytes",)), kinds, condition.removeprefix("true")
        )

    if declares.launches is not None:
        return [
            made(x.entry, grid=x.grid, block=x.block, shared=x.shared_bytes, arguments=x.arguments, when=x.when or "")
            for x in declares.launches
        ]
    found, earlier = [], "true"
    for entry, when in [(e.name, e.when or "true") for e in declares.entries or []] or [(declares.entry or "", "true")]:
        # of several entry points the first whose condition holds is launched
        condition = f"({earlier}) and ({when})"
        found.append(
            made(
                entry,
                grid=declares.grid or [],
                block=declares.block or [],
                shared=declares.shared_bytes,
                arguments=declares.arguments or {},
                when=condition,
            )
        )
        earlier = fixed(f"({earlier}) and not ({when})", ("entries",))
    return found


@dataclass(frozen=True)
class _Specialiser:
    """Puts what is known into expressions."""

    known: Mapping[str, Scalar]
    template: Template

    def __call__(self, expression: str | int, path: tuple[str, ...]) -> str:
        """The expression with sizes and factors as its only names."""
        if not isinstance(expression, str):
            return literal(expression)
        at, key = self.template.document.at(path[0]), ".".join(path)
        used = names_in(expression, at=at, key=key)
        unknown = sorted(used - self.known.keys() - _RUN_TIME)
        if unknown:
            accepted = sorted([*self.known, *_RUN_TIME])
            raise UserError("a library does not know this name", at=at, key=key, found=unknown[0], accepted=accepted)
        return self._text(tree(expression), at, key)

    def _text(self, node: nodes.Node, at: Location, key: str) -> str:
        if isinstance(node, nodes.Name) and node.name in self.known:
            return literal(self.known[node.name])
        text = self._composed(node, at, key)
        if any(name.name in _RUN_TIME for name in [*node.find_all(nodes.Name), node] if isinstance(name, nodes.Name)):
            return text
        return literal(evaluate(text, {}, at=at, key=key))

    def _composed(self, node: nodes.Node, at: Location, key: str) -> str:
        def text(part: nodes.Node) -> str:
            return self._text(part, at, key)

        if isinstance(node, nodes.And | nodes.Or):
            return _shortened(isinstance(node, nodes.And), text(node.left), text(node.right))
        if isinstance(node, nodes.CondExpr) and node.expr2 is not None:
            test = text(node.test)
            if test in ("true", "false"):
                return text(node.expr1 if test == "true" else node.expr2)
            return f"({text(node.expr1)} if {test} else {text(node.expr2)})"
        if isinstance(node, nodes.Getitem):
            return f"{text(node.node)}[{text(node.arg)}]"
        written = _written(node, text)
        if written is None:
            raise unsupported(node, at, key)
        return written


def _written(node: nodes.Node, text: Callable[[nodes.Node], str]) -> str | None:
    """A node in Jinja's notation, in parentheses; None where it is none that sizes need."""
    written = None
    match node:
        case nodes.Const():
            written = literal(node.value)
        case nodes.Name():
            written = node.name
        case nodes.Neg():
            written = f"(-{text(node.node)})"
        case nodes.Not():
            written = f"(not {text(node.node)})"
        case nodes.BinExpr() if type(node) in _INFIX:
            written = f"({text(node.left)} {_INFIX[type(node)]} {text(node.right)})"
        case nodes.Compare():
            rest = "".join(f" {_COMPARISONS[operand.op]} {text(operand.expr)}" for operand in node.ops)
            written = f"({text(node.expr)}{rest})"
        case nodes.Call(node=nodes.Name(name=name)) if name in _FUNCTIONS:
            written = f"{name}({', '.join(text(argument) for argument in node.args)})"
    return written


def _shortened(conjunction: bool, left: str, right: str) -> str:
    """`and`, `or` of two texts, without the constants that decide nothing."""
    neutral, deciding = ("true", "false") if conjunction else ("false", "true")
    if deciding in (left, right):
        return deciding
    if left == neutral:
        return right
    if right == neutral:
        return left
    return f"({left} {'and' if conjunction else 'or'} {right})"


def literal(value: object) -> str:
    """A constant in Jinja's notation."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def to_c(expression: str) -> str:
    """An expression of sizes and factors in C; each of its names is a variable, sizes of type int64_t.

    Raises:
        UserError: C has no such operation on sizes.
    """
    return _c(tree(expression), expression)


def tree(expression: str) -> nodes.Node:
    """The syntax tree of an expression that Jinja has read before."""
    output = _ENVIRONMENT.parse("{{ (" + expression + ") }}").body[0]
    assert isinstance(output, nodes.Output)  # noqa: S101 - what two braces are to Jinja
    return output.nodes[0]


def _c(node: nodes.Node, whole: str) -> str:
    def c(part: nodes.Node) -> str:
        return _c(part, whole)

    written = None
    match node:
        case nodes.Const(value=bool() | int() | float() as value):
            written = repr(value) if isinstance(value, float) else f"INT64_C({int(value)})"
        case nodes.Name():
            written = f"p->{node.name}"
        case nodes.BinExpr() if type(node) in _C_BINARY:
            written = _C_BINARY[type(node)].format(c(node.left), c(node.right))
        case nodes.Neg() | nodes.Not():
            written = f"({'-' if isinstance(node, nodes.Neg) else '!'}{c(node.node)})"
        case nodes.Compare():
            written = _c_comparison(node, whole)
        case nodes.CondExpr() if node.expr2 is not None:
            written = f"({c(node.test)} ? {c(node.expr1)} : {c(node.expr2)})"
        case nodes.Call(node=nodes.Name(name=name)) if len(node.args) == _FUNCTIONS.get(name):
            function = {"abs": "absolute", "min": "least", "max": "largest"}.get(name, name)
            written = f"{function}({', '.join(map(c, node.args))})"
    if written is None:
        raise unsupported(node, Location("<library>"), whole)
    return written


def _c_comparison(node: nodes.Compare, whole: str) -> str:
    """A chain of comparisons, each on its own as in Python."""
    parts, left = [], _c(node.expr, whole)
    for operand in node.ops:
        if operand.op in ("in", "notin"):
            raise unsupported(node, Location("<library>"), whole)
        right = _c(operand.expr, whole)
        parts.append(f"({left} {_COMPARISONS[operand.op]} {right})")
        left = right
    return parts[0] if len(parts) == 1 else f"({' && '.join(parts)})"


def unsupported(node: nodes.Node, at: Location, key: str) -> UserError:
    """The error of a node that launches cannot be computed with."""
    accepted = f"+ - * // %, comparisons, and, or, not, if else, {', '.join(_FUNCTIONS)}"
    return UserError(
        "a library's launch cannot compute this", at=at, key=key, found=type(node).__name__, accepted=accepted
    )
