"""A template with its parameters for one problem, and everything derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from lab.base.elements import ELEMENT_BYTES
from lab.base.errors import Location
from lab.base.expressions import Scalar, evaluate, names_in
from lab.base.yamlfile import Key
from lab.hardware.encodedmaps import DATA_TYPES
from lab.hardware.tensormaps import SWIZZLES, PixelBox, TensorMap
from lab.templates.front_matter import C_TYPES, NO_VALUE, TENSOR_MAP, Requirement, Template
from lab.templates.launch_rules import Scope, buffers, declared, resolved
from lab.templates.launches import ConstantValue, Launches
from lab.templates.plain.bound import BoundArgument, Source, passed
from lab.templates.plain.template import PlainTemplate
from lab.templates.rendering import RenderRequest, renderer
from lab.templates.values import EinsumFacts

_MOST_EXTENT = 2**63
"""Upper bound on elements along a side of a tensor map; `TensorMap.refused` checks the real limits."""


@dataclass(frozen=True)
class Instance:
    """A template with its parameters, for one problem. Properties are computed on first use.

    Attributes:
        template: The template.
        parameters: Every parameter of the template with its value.
        problem: The problem, a `lab.operators.base.Problem` as a rule. For what does not depend on its sizes (`names`,
            `source`, `abbreviation`), its words are enough.
    """

    template: Template
    parameters: Mapping[str, Scalar]
    problem: Mapping[str, Scalar]

    @classmethod
    def of(cls, template: Template, settings: Mapping[str, Scalar], problem: Mapping[str, Scalar]) -> Self:
        """Return the instance with the given parameters and defaults for the others."""
        return cls(template, template.completed(settings), problem)

    @cached_property
    def parameter_values(self) -> Mapping[str, object]:
        """Parameters by name, as seen by expressions and templates: a mapping as its facts."""
        declarations = self.template.declares.parameters
        return {
            name: declarations[name].value(value) if name in declarations else value
            for name, value in self.parameters.items()
        }

    @cached_property
    def names(self) -> Mapping[str, object]:
        """The names available to a template and its expressions before the problem's sizes are known.

        These are the problem's fields that are words or booleans, `none` for those which the template names and the
        problem lacks, `T` and `element_bytes`, the objects that `fields` declares, the parameters, and the derived
        names.

        Raises:
            UserError: A derived name's expression fails.
        """
        declares, document, problem = self.template.declares, self.template.document, self.problem
        names: dict[str, object] = {key: value for key, value in problem.items() if isinstance(value, str | bool)}
        dtype = problem.get("dtype")
        if dtype in C_TYPES:
            names |= {"T": C_TYPES[str(dtype)], "element_bytes": ELEMENT_BYTES[str(dtype)]}
        names |= dict.fromkeys(declares.problem.keys() - problem.keys(), NO_VALUE)
        names |= {name: EinsumFacts(str(problem[name])) for name in declares.fields if name in problem}
        names |= self.parameter_values
        for key, expression in declares.derived.items():
            names[key] = evaluate(expression, names, at=document.at("derived", key), key=f"derived.{key}")
        return names

    @cached_property
    def all_names(self) -> Mapping[str, object]:
        """`names` and the problem's sizes, `none` for missing ones: for geometry and requirements."""
        absent: frozenset[str] = getattr(self.problem, "absent", frozenset())
        return {**dict.fromkeys(absent, NO_VALUE), **self.problem, **self.names}

    def unmet(self, *, sizes: bool = True) -> Requirement | None:
        """Return the template's first unmet requirement; None if all are met.

        Args:
            sizes: Look at requirements that depend on the problem's numbers, too; without them, what is met is met at
                any size.

        Raises:
            UserError: A requirement's expression fails.
        """
        numbers = self._scope.sizes
        for i, requirement in enumerate(self.template.declares.requires):
            at = self.template.document.at("requires", i)
            if not sizes and numbers & names_in(requirement.that, at=at, key=f"requires[{i}]"):
                continue
            if not evaluate(requirement.that, self.all_names, at=at, key=f"requires[{i}]"):
                return requirement
        return None

    def unsupported(self) -> tuple[str, list[Scalar]] | None:
        """Return the first field of the problem with an unsupported value; see `Template.unsupported`."""
        return self.template.unsupported(self.problem)

    @cached_property
    def source(self) -> str:
        """CUDA source.

        Raises:
            UserError: The template fails, with its line.
        """
        return sources([self])[0]

    @property
    def _request(self) -> RenderRequest:
        template, names = self.template, dict(self.names)
        if template.declares.entry:
            names["entry"] = template.declares.entry
        return RenderRequest(template.name, template.roots, names, template.file)

    @cached_property
    def abbreviation(self) -> str:
        """The parameters in the template's short form, ``MT128x64_DU16_GSU4_…``; empty if it declares none.

        A part whose value is the empty word is left out.

        Raises:
            UserError: An expression of `abbreviate` fails.
        """
        document = self.template.document
        values = {
            short: evaluate(text, self.names, at=document.at("abbreviate", short), key=f"abbreviate.{short}")
            for short, text in self.template.declares.abbreviate.items()
        }
        return "_".join(f"{short}{value}" for short, value in values.items() if value != "")

    @cached_property
    def launches(self) -> Launches:
        """Entry points, geometry, arguments, workspace and tensor maps, by the rules of `lab.templates.launch_rules`.

        Raises:
            UserError: An expression of the front matter fails, or its result is not a legal launch.
        """
        result = self.own_launches
        if isinstance(self.template, PlainTemplate) and self.template.bound:
            bound = self.template.bound
            result = replace(
                result, steps=tuple(passed(step, bound) for step in result.steps), scalars=self._values(bound)
            )
        constants = self.template.constant_memory if isinstance(self.template, PlainTemplate) else ()
        arguments = [argument for step in result.steps for argument in step.arguments]
        mapped = dict.fromkeys(name for name, kind in (*arguments, *constants) if kind == TENSOR_MAP)
        return replace(
            result,
            tensor_maps=tuple(self._tensor_map(name) for name in mapped),
            constants=tuple(
                ConstantValue(name, dtype if dtype == TENSOR_MAP else self._scope.typed(dtype))
                for name, dtype in constants
            ),
        )

    @cached_property
    def own_launches(self) -> Launches:
        """The launches with the kernels' own argument names, without operator data.

        Raises:
            UserError: As of `launches`.
        """
        return resolved(declared(self.template.declares), buffers(self.template.declares), self._scope)

    def _values(self, bound: Iterable[BoundArgument]) -> tuple[tuple[str, Scalar], ...]:
        """Return the names and values of the arguments given by expressions."""
        computed = [argument for argument in bound if argument.source is Source.EXPRESSION]
        return tuple((argument.passed, self.value(argument)) for argument in computed)

    def value(self, argument: BoundArgument) -> Scalar:
        """Return the value of an argument given by an expression.

        Raises:
            UserError: The expression fails, or yields a text.
        """
        path = ("arguments", argument.name)
        number = self._scope.evaluate(argument.text, path)
        if isinstance(number, str):
            raise self._scope.error("not a number", path, found=number, accepted="an expression that yields a number")
        return number

    @cached_property
    def predictions(self) -> Mapping[str, float]:
        """The template's predicted access costs: sectors per request (global), bank conflicts per request (shared).

        The expressions know what the geometry knows, and `entry`, the entry point that is launched. A sequence has no
        single entry point, and its figures are those of all launches together.

        Raises:
            UserError: An expression fails, or yields no number.
        """
        declares, scope = self.template.declares, self._scope
        if not declares.predicts:
            return {}
        if declares.launches is None:
            scope = replace(scope, names={**scope.names, "entry": self.launches.steps[0].entry})
        costs: dict[str, float] = {}
        for access, expression in declares.predicts.items():
            value = scope.evaluate(expression, ("predicts", access))
            if isinstance(value, bool | str):
                accepted = "a number of sectors or conflicts"
                raise scope.error("not a number", ("predicts", access), found=value, accepted=accepted)
            costs[access] = float(value)
        return costs

    @property
    def _scope(self) -> Scope:
        sizes = frozenset(name for name, value in self.problem.items() if not isinstance(value, bool | str))
        document = self.template.document

        def at(path: Key) -> Location:
            return document.at(*path)

        return Scope(self.all_names, sizes - self.names.keys(), at, str(self.problem.get("dtype", "")))

    def _tensor_map(self, name: str) -> TensorMap:
        path: Key = ("tensor_maps", name)
        if isinstance(self.template, PlainTemplate):  # what a plain kernel takes is said of its argument
            path = ("constants" if (name, TENSOR_MAP) in self.template.constant_memory else "arguments", name)
        scope, declares = self._scope, self.template.declares.tensor_maps[name]

        def sizes(field: str, expressions: Sequence[str | int]) -> tuple[int, ...]:
            return tuple(scope.size(x, (*path, field, i), most=_MOST_EXTENT) for i, x in enumerate(expressions))

        def corner(field: str, expressions: Sequence[str | int]) -> tuple[int, ...]:
            return tuple(scope.integer(x, (*path, field, i)) for i, x in enumerate(expressions))

        pixels = None
        if declares.steps:
            pixels = PixelBox(
                corner("lower", declares.lower), corner("upper", declares.upper), corner("steps", declares.steps)
            )
        of = scope.words(declares.of, (*path, "of"))
        tensor_map = TensorMap(
            name,
            of[0] if len(of) == 1 else declares.of,
            scope.typed(declares.type),
            sizes("extents", declares.extents),
            scope.size(declares.leading, (*path, "leading"), most=_MOST_EXTENT),
            sizes("box", declares.box),
            scope.size(declares.swizzle, (*path, "swizzle"), most=max(SWIZZLES)),
            sizes("outer", declares.outer),
            pixels,
        )
        if tensor_map.dtype not in DATA_TYPES:
            accepted = ", ".join(DATA_TYPES)
            raise scope.error("unknown element type", (*path, "type"), found=tensor_map.dtype, accepted=accepted)
        refused = tensor_map.refused(ELEMENT_BYTES[tensor_map.dtype])
        if refused:
            field, value, accepted = refused
            raise scope.error("this tensor map cannot be made", (*path, field), found=value, accepted=accepted)
        return tensor_map


def sources(instances: Sequence[Instance]) -> list[str]:
    """Return the `Instance.source` of each instance; rendering them together is faster.

    Raises:
        UserError: A template fails, with its line.
    """
    rendered = [instance for instance in instances if not isinstance(instance.template, PlainTemplate)]
    texts = iter(renderer().render_all([instance._request for instance in rendered]) if rendered else ())  # noqa: SLF001 - of this module
    return [
        instance.template.rendered(instance.parameters)
        if isinstance(instance.template, PlainTemplate)
        else _source(next(texts))
        for instance in instances
    ]


def _source(text: str) -> str:
    return text.lstrip("\n")
