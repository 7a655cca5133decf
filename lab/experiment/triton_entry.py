"""Loads a user's Triton function as a checked entry of an `Experiment`.

The function's Python file is read, not run, so everything that can be known of its arguments is checked here.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.base.errors import did_you_mean, together
from lab.base.expressions import Scalar
from lab.base.yamlfile import Key
from lab.experiment.model import KernelEntry
from lab.experiment.plain import PlainKernel
from lab.experiment.plain_checks import Reading, axes_of, baseline_of, check_constraints, check_names, listed, type_of
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.operator import Declared
from lab.operators.foreign import Described
from lab.templates.front_matter import FrontMatter, Parameter
from lab.templates.instance import Instance
from lab.templates.launches import RESIDENT_BLOCKS
from lab.templates.plain.bound import Source
from lab.templates.plain.triton import OPTIONS, TritonFunction, TritonTemplate, read_functions
from lab.templates.plain.triton_configs import Decorations, decorations
from lab.toolchain.triton.source import TYPES, triton_type

TRITON: Final = "triton"
"""The toolchain of Triton functions."""

DIVISOR: Final = 16
"""Triton specialises code for arguments that are multiples of this: it loads and stores wider."""

_MOST_CONDITION: Final = 800
"""Characters, of the 1000 that an expression may have."""

_SOURCE = re.compile(r"(?P<file>.+\.py)(?::(?P<function>\w+))?")
_LIMITS: Final[Mapping[str, int]] = {"num_warps": 32, "num_stages": 32, "num_ctas": 16}
_FIXED: Final = {
    "block": "no block: it follows from num_warps",
    "cluster": "no cluster: num_ctas in configs makes clusters",
    "carveout": "no carveout: Triton decides about shared memory",
    "kernel": "no kernel: the source names the function, softmax.py:softmax_kernel",
    "launches": "one function",
    "options": "no options; num_warps, num_stages and num_ctas stand in configs",
    "shared_bytes": "no shared_bytes: Triton decides about shared memory",
}
"""Keys that do not apply to a Triton function."""

Axes = dict[str, tuple[Scalar, ...]]


def is_triton(source: str) -> bool:
    """Return whether a source is a Python file, with or without a function's name."""
    return _SOURCE.fullmatch(source) is not None


def triton_kernel(reading: Reading) -> PlainKernel:
    """Check everything about a Triton function that does not depend on problems.

    Raises:
        UserError: Every mistake that was found, together.
    """
    match = _SOURCE.fullmatch(reading.source)
    assert match is not None  # noqa: S101 - the caller has asked `is_triton`
    text = reading.text(match["file"])
    function = _function(reading, text, match["function"]) if text is not None else None
    axes, tied = _configs(reading, axes_of(reading), function, text or "")
    nones = _nones(reading, function)
    reading.omitted = frozenset(nones)
    declaration = reading.declared(function.name if function else Path(match["file"]).stem, axes, {})
    if function is not None and declaration is not None:
        _check_arguments(reading, function, declaration, nones)
        _check_parameters(reading, function, axes)
    _check_launch(reading, axes)
    if declaration is not None and {*declaration.type_parameters} - reading.fields:
        accepted = f"one of {', '.join(TYPES)}"
        reading.refuse("a Triton function's types cannot follow a parameter", ("arguments",), accepted=accepted)
    if declaration is not None and declaration.constants:
        reading.refuse("a Triton function has no constant memory", ("constants",), accepted="arguments, or parameters")
    baseline = baseline_of(reading, axes)
    if reading.mistakes or declaration is None or function is None:
        raise together(reading.mistakes)
    template = TritonTemplate(
        Path(match["file"]).name,
        reading.folder / match["file"],
        _declares(reading, declaration, axes),
        reading.document,
        (reading.folder.resolve(),),
        text or "",
        bound=reading.bound,
        named=reading.named,
        function=function.name,
        constants=tuple(name for name in function.constexprs if name in axes),
        unset=(*nones, *(name for name, one in function.constexprs.items() if name not in axes and one.is_none)),
        tuples=_tuples(declaration),
    )
    constraints = [*reading.constraints]
    constraints += [(one, reading.document.at("configs")) for one in tied]
    entry = KernelEntry(function.name, template, axes, tuple(constraints), toolchain=TRITON)
    return PlainKernel(entry, declaration, baseline)


def divisible(instances: Sequence[Instance], computed: Described) -> tuple[str, ...]:
    """Return the arguments that are multiples of `DIVISOR` in every launch of a variant's machine code.

    Arrays are aligned to it. An integer must be a multiple for every problem, as measured and as emulated.

    Args:
        instances: The variant, for each problem that the machine code is launched for.
        computed: The operator.
    """
    always = _always(instances, computed, lambda value: value % DIVISOR == 0)
    return tuple(name for name, kind in _arguments(instances) if kind.endswith("*") or name in always)


def ones(instances: Sequence[Instance], computed: Described) -> tuple[str, ...]:
    """Return the integers that are 1 in every launch of a variant's machine code; Triton makes them constants.

    Args:
        instances: As for `divisible`.
        computed: The operator.
    """
    return tuple(_always(instances, computed, lambda value: value == 1))


def _arguments(instances: Sequence[Instance]) -> Iterable[tuple[str, str]]:
    return dict.fromkeys(argument for instance in instances for argument in instance.own_launches.steps[0].arguments)


def _always(instances: Sequence[Instance], computed: Described, holds: Callable[[int], bool]) -> list[str]:
    """Return the integers that satisfy a condition in every launch."""
    values = [_values(instance, computed) for instance in instances]
    return [
        name
        for name, kind in _arguments(instances)
        if "int" in kind
        and not kind.endswith("*")
        and all(name in scalars and holds(int(scalars[name])) for scalars in values)
    ]


def _values(instance: Instance, computed: Described) -> Mapping[str, Scalar]:
    """Return a function's scalars by name, without those only the operator knows."""
    if isinstance(computed, Declared):
        return computed.scalars(computed.restored(instance.problem))
    assert isinstance(instance.template, TritonTemplate)  # noqa: S101 - the caller has looked
    return {bound.name: instance.value(bound) for bound in instance.template.bound if bound.source is Source.EXPRESSION}


def _function(reading: Reading, text: str, function_name: str | None) -> TritonFunction | None:
    """Return the function the source names, or the only one in the file."""
    with reading.noting():
        functions = {
            function.name: function
            for function in read_functions(text, str(reading.folder / reading.source.partition(":")[0]))
        }
        if function_name is None and len(functions) == 1:
            return next(iter(functions.values()))
        if function_name in functions:
            return functions[function_name]
        message = "the source has no such Triton function" if function_name else "name the Triton function"
        accepted = [f"{reading.source.partition(':')[0]}:{name}" for name in functions]
        reading.refuse(
            message,
            ("source",),
            found=function_name,
            accepted=accepted or "a file with a function under @triton.jit",
            suggestion=did_you_mean(function_name or "", functions),
        )
    return None


def _autotuned(reading: Reading, function: TritonFunction | None, text: str) -> list[dict[str, object]]:
    """The configs of the function's own decorator."""
    with reading.noting():
        tree = ast.parse(text)
        nodes = (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and function is not None)
        chosen = next((node for node in nodes if function is not None and node.lineno == function.line), None)
        said = decorations(tree, chosen) if chosen is not None else Decorations()
        if function is not None and not said.configs:
            message = "the function's file does not say its configs" if said.configs_line else "no configs to read"
            accepted = (
                "configs as a mapping or a list, or a function under @triton.autotune whose configs the text gives"
            )
            reading.refuse(message, ("configs",), found="autotune", accepted=accepted)
        return [dict(config.values) for config in said.configs]
    return []


def _configs(reading: Reading, axes: Axes, function: TritonFunction | None, text: str) -> tuple[Axes, list[str]]:
    """Return the values of all parameters, and the condition that they form one config; empty without one."""
    configs = reading.raw.configs
    entries: Sequence[Mapping[str, object]]
    if configs == "autotune":
        entries = _autotuned(reading, function, text) or [{}]
    else:
        entries = configs if isinstance(configs, list) else [configs or {}]
    parsed: list[Axes] = []
    for i, entry in enumerate(entries):
        place: Key = ("configs", i) if isinstance(configs, list) else ("configs",)
        for name in entry:
            if name in axes:
                reading.refuse("the parameter has values in parameters, too", (*place, name), found=name)
        own: Key = ("configs",) if configs == "autotune" else place
        parsed.append({name: reading.values(value, (*own, name)) for name, value in entry.items() if name not in axes})
    names = list(dict.fromkeys(name for entry in parsed for name in entry))
    defaults = dict(OPTIONS) | {
        name: constexpr.default for name, constexpr in (function.constexprs if function else {}).items()
    }
    for i, entry in enumerate(parsed):
        for name in names:
            default = defaults.get(name)
            if name not in entry and default is None:
                reading.refuse("a config lacks a parameter that another one has", ("configs", i), accepted=name)
            elif name not in entry and default is not None:
                entry[name] = (default,)
    merged = axes | {name: _distinct(itertools.chain(*(entry.get(name, ()) for entry in parsed))) for name in names}
    merged |= {name: (value,) for name, value in OPTIONS.items() if name not in merged}
    merged |= {
        name: (constexpr.default,)
        for name, constexpr in (function.constexprs if function else {}).items()
        if name not in merged and constexpr.default is not None
    }
    _check_options(reading, merged, names)
    tied = _tied(parsed) if len(parsed) > 1 and not reading.mistakes else []
    return merged, tied


def _distinct(values: itertools.chain[Scalar]) -> tuple[Scalar, ...]:
    return tuple({repr(value): value for value in values}.values())


def _tied(configs: Sequence[Mapping[str, Sequence[Scalar]]]) -> list[str]:
    """The conditions that hold together for the points of any of some configs; each is short enough to be read."""
    whole = " or ".join(map(_condition, configs))
    names = [name for name in configs[0] if any(config[name] != configs[0][name] for config in configs)]
    if len(whole) <= _MOST_CONDITION or not names:
        return [whole]
    by = max(names, key=lambda name: len({repr(value) for config in configs for value in config[name]}))
    made = []
    for value in _distinct(itertools.chain(*(config[by] for config in configs))):
        having = [
            {name: given for name, given in config.items() if name != by} for config in configs if value in config[by]
        ]
        made += [f"{by} != {json.dumps(value)} or ({inner})" for inner in _tied(having)]
    return made


def _condition(config: Mapping[str, Sequence[Scalar]]) -> str:
    """Return an expression that is true for the points of a config."""
    parts = (" or ".join(f"{name} == {json.dumps(value)}" for value in values) for name, values in config.items())
    return f"({' and '.join(f'({clause})' for clause in parts)})"


def _check_options(reading: Reading, axes: Axes, in_configs: Sequence[str]) -> None:
    for name, limit in _LIMITS.items():
        accepted = f"an integer from 1 to {limit}" if name == "num_stages" else f"a power of two up to {limit}"
        for value in axes[name]:
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not is_whole or not 1 <= int(value) <= limit or (name != "num_stages" and int(value).bit_count() != 1):
                place: Key = ("configs",) if name in in_configs else ("parameters", name)
                reading.refuse(f"{name} is wrong", place, found=value, accepted=accepted)


def _nones(reading: Reading, function: TritonFunction | None) -> tuple[str, ...]:
    """The arguments for which a launch passes None: those that say so, and those left out whose default it is."""
    given = reading.raw.arguments or {}
    said = [name for name, text in given.items() if isinstance(text, str) and text.strip().lower() == "none"]
    passed = [one for one in (function.arguments if function else ()) if not one.is_constexpr]
    return (*said, *(one.name for one in passed if one.is_none and one.name not in given))


def _tuples(declaration: Declaration) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The arguments that are tuples, with the names of their members."""
    names = dict.fromkeys(one.structure for one in declaration.passed if one.structure)
    return tuple((name, tuple(one.name for one in declaration.passed if one.structure == name)) for name in names)


def _check_arguments(
    reading: Reading, function: TritonFunction, declaration: Declaration, nones: Sequence[str]
) -> None:
    """Compare the declared arguments with the function's, and their types with Triton's."""
    names = tuple(dict.fromkeys(argument.structure or argument.name for argument in declaration.passed))
    expected = tuple(name for name in function.passed if name not in nones)
    if names != expected:
        reading.refuse(
            f"the arguments do not match the function {function.name}",
            ("arguments",),
            found=", ".join(names),
            accepted=f"{', '.join(expected) or 'none'}, in this order (constexprs are parameters)",
            suggestion="mind the order" if sorted(names) == sorted(expected) else None,
        )
    for argument in declaration.arguments:
        if not argument.type_parameter and triton_type(argument.dtype, is_array=argument.is_array) is None:
            place: Key = ("arguments", argument.name)
            reading.refuse("Triton has no such type", place, found=argument.dtype, accepted=list(TYPES))


def _check_parameters(reading: Reading, function: TritonFunction, axes: Axes) -> None:
    """Check that each parameter is a constexpr, option or scalar, and that each constexpr has a value."""
    valid_names = [*function.constexprs, *OPTIONS]
    for name in axes:
        if name not in valid_names and name not in function.passed:
            place: Key = ("parameters", name) if name in reading.raw.parameters else ("configs",)
            suggestion = did_you_mean(name, valid_names)
            message = f"the function {function.name} has no such constexpr argument"
            reading.refuse(message, place, found=name, accepted=valid_names, suggestion=suggestion)
    for name, constexpr in function.constexprs.items():
        if name not in axes and not constexpr.has_default:
            message = f"the constexpr {name} of {function.name} has no value"
            accepted = f"a value or a list of values for {name}"
            if name in reading.fields:
                accepted += ", in place of the problem's: what the CPU executes is the same machine code"
            reading.refuse(message, ("parameters", name), accepted=accepted)


def _check_launch(reading: Reading, axes: Axes) -> None:
    raw, valid_names = reading.raw, {*axes, *reading.fields}
    for key, accepted in _FIXED.items():
        fields = type(raw).model_fields
        if key in fields and getattr(raw, key) != fields[key].get_default(call_default_factory=True):
            reading.refuse(f"a Triton function does not use {key}", (key,), found=getattr(raw, key), accepted=accepted)
    if raw.grid is None:
        accepted = "an expression such as ceil_div(n, BLOCK), or a list of up to three"
        reading.refuse("a key is missing", ("grid",), accepted=accepted)
    for i, size in enumerate(listed(raw.grid or 1)):
        place: Key = ("grid", i) if isinstance(raw.grid, list) else ("grid",)
        check_names(reading, size, place, {*valid_names, RESIDENT_BLOCKS}, "the grid")
    check_constraints(reading, valid_names)


def _declares(reading: Reading, declaration: Declaration, axes: Axes) -> FrontMatter:
    """Return the front matter of a template with this source; the build may correct the block: `BuiltLaunch`."""
    return FrontMatter(
        summary=reading.summary,
        operator="declared",
        entry=declaration.name,
        grid=listed(reading.raw.grid or 1),
        block=["32 * num_warps"],
        arguments={
            argument.name: f"{argument.dtype}*" if argument.is_array else argument.dtype
            for argument in declaration.arguments
        },
        parameters={
            name: Parameter(
                type=type_of(values),
                default=values[0],
                help="an option of Triton" if name in OPTIONS else f"a constexpr of {reading.source}",
            )
            for name, values in axes.items()
        },
        workspace=reading.workspace,
    )
