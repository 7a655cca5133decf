"""Executions of a candidate beyond those of every run: hidden problems, changed inputs, aliases, other orders.

Runs in worker processes. The checks of `lab.stages.emulate` come first; these add what only matters where the author of
a kernel gains from a wrong verdict.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import LabError, Location, UserError
from lab.base.expressions import Scalar, evaluate
from lab.emulator.results import Finding
from lab.emulator.state import DeviceState
from lab.judging.case import Case
from lab.judging.evidence import of_difference, of_finding
from lab.judging.faults import Dependence, Fault, Ruling, TrialOutcome
from lab.judging.task import choices_of
from lab.operators.base import Array, Expected, Inputs
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ElementKind, ElementType
from lab.operators.declared.inputs import ArgumentPlan, contents, plan
from lab.operators.declared.operator import Declared
from lab.operators.declared.specification import Argument, Direction, FillKind
from lab.runs.flow import resized_launches
from lab.runs.sample_sizes import smaller_sizes
from lab.stages.full_size import FullSizeTask, SizedLaunches
from lab.stages.memory import DeviceMemory
from lab.stages.sequence import LaunchMode, run_sequence, unexcused
from lab.templates.launches import Launches

_TRIES: Final = 20
"""Draws of a hidden problem before its sizes count as ones that the task does not allow."""

_MOVED: Final = 4.0
"""Change of an expected value, in tolerances, from which the output must change along."""

_FOLLOWED: Final = 0.5
"""Largest difference between the changes of an output and its reference, over the latter."""

_SHIFTED: Final = (3.0, 8.0)
"""Factor and term of floats that are drawn again: means, signs and sizes differ from those of normal numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class TrialExecution:
    """One execution of the candidate's launches.

    Attributes:
        outputs: What the outputs hold, by name.
        finding: The first fault; None without one.
        memory: The device memory.
    """

    outputs: Mapping[str, Array]
    finding: Finding | None
    memory: DeviceMemory


@dataclass(frozen=True, slots=True, eq=False)
class _Base:
    """The candidate on the inputs that others are compared with."""

    problem: Any
    planned: ArgumentPlan
    inputs: Inputs
    reference: Mapping[str, Expected]
    outputs: Mapping[str, Array]
    launches: Launches
    seed: int = 0


def execute(case: Case, launches: Launches, inputs: Inputs, mode: LaunchMode | None = None) -> TrialExecution:
    """Execute the candidate's launches on some inputs."""
    memory = DeviceMemory(inputs, launches)
    mode = mode or LaunchMode(counted=False)
    results = run_sequence(case.variant.ptx, launches, memory, replace(mode, excused=case.excused))
    findings = unexcused(results[-1], case.excused)
    return TrialExecution(memory.outputs, findings[0] if findings else None, memory)


def _fault(
    check: str,
    computed: Declared,
    problem: Any,  # noqa: ANN401 - each operator has its own
    reference: Mapping[str, Expected],
    execution: TrialExecution,
    *,
    prefix: str = "",
    fields: Mapping[str, Scalar] | None = None,
    seed: int,
) -> Fault | None:
    """Return the fault of an execution: its finding, else its difference from a reference.

    Args:
        check: The check.
        computed: The operator.
        problem: The executed problem.
        reference: The expected values.
        execution: The execution.
        prefix: Said before the element that differs.
        fields: The problem's fields, if not the task's own.
        seed: Seed of the inputs.
    """
    if execution.finding is not None:
        return of_finding(check, execution.finding, problem=fields, seed=seed)
    largest, tolerance, worst = computed.verify(problem, reference, execution.outputs)
    return of_difference(check, worst, prefix=prefix, problem=fields, seed=seed) if largest > tolerance else None


def _expected(computed: Declared, problem: Any, inputs: Inputs) -> Mapping[str, Expected]:  # noqa: ANN401
    """Return the reference's values; a function that overflows on extreme inputs prints no warnings."""
    with np.errstate(all="ignore"):
        return computed.reference(problem, inputs)


# --- hidden problems ----------------------------------------------------------------------------------------------


def try_hidden_problems(case: Case) -> TrialOutcome:
    """Execute the candidate on problems and inputs that its author does not know."""
    faults: list[Fault] = []
    sizes: list[Mapping[str, Scalar]] = []
    hidden = case.task.raw.hidden
    for number, (drawn, launches, problem, seed) in enumerate(_hidden_problems(case)):
        fault = _tried(case, launches, problem, seed, drawn)
        sizes.append(drawn)
        if fault is not None:
            faults.append(fault)
            break
        if number + 1 == hidden.draws:
            break
    gaps = () if hidden.sizes or faults else ("no other sizes were tried: the task has no hidden sizes",)
    return TrialOutcome(tuple(faults), sizes=tuple(sizes), not_shown=gaps)


def _tried(
    case: Case, launches: Launches | None, problem: Mapping[str, Scalar], seed: int, drawn: Mapping[str, Scalar]
) -> Fault | None:
    """Execute one hidden problem; return its fault."""
    words = ", ".join(f"{name} = {value}" for name, value in drawn.items()) or f"seed {seed}"
    if launches is None:
        return Fault(Ruling.WRONG, "hidden problem", f"with {words}: the launch has no legal grid", problem=drawn)
    computed = case.operator
    restored = computed.restored(problem)
    inputs = computed.inputs(restored, seed)
    reference = _expected(computed, restored, inputs)
    execution = execute(case, launches, inputs)
    return _fault(
        "hidden problem", computed, restored, reference, execution, prefix=f"with {words}", fields=drawn, seed=seed
    )


def _hidden_problems(
    case: Case,
) -> Iterator[tuple[Mapping[str, Scalar], Launches | None, Mapping[str, Scalar], int]]:
    """Yield drawn fields, launches (None where the candidate has no legal ones), problem and seed.

    The first problem has the least of all sizes, the second the largest, the next ones have random sizes.

    Raises:
        UserError: The task allows none of the drawn sizes.
    """
    rng = np.random.default_rng([case.seed, 1])
    raw = case.task.raw
    choices = {name: choices_of(raw, case.task.document, name) for name in raw.hidden.sizes}
    point = case.variant.planned.point
    base = point.problem.emulate
    assert base is not None  # noqa: S101 - every task has one
    valid = 0
    for number in range(case.task.raw.hidden.draws + _TRIES):
        seed = int(rng.integers(1, 2**31))
        drawn: dict[str, Any] = {name: values[int(rng.integers(len(values)))] for name, values in choices.items()}
        if number < len(_ENDMOST):
            drawn = {name: _ENDMOST[number](values, key=_size) for name, values in choices.items()}
        try:
            problem = case.operator.for_parameters(case.operator.problem({**base, **drawn}), point.parameters)
        except UserError:
            continue
        valid += 1
        sized = resized_launches(case.context, case.variant, base, drawn)
        yield drawn, sized[0] if sized is not None else None, dict(problem), seed
    if not valid:
        raise UserError(
            "the arguments do not allow these sizes",
            code="wrong-value",
            at=case.task.document.at("hidden", "sizes"),
            key="hidden.sizes",
            found=dict(case.task.raw.hidden.sizes),
            accepted="sizes for which every shape is a positive integer",
        )


_ENDMOST: Final[tuple[Callable[..., Any], ...]] = (min, max)


def _size(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# --- inputs -------------------------------------------------------------------------------------------------------


def try_inputs(case: Case) -> TrialOutcome:
    """Change inputs one at a time, and check that outputs follow; try aliases, orders and precision."""
    problem = case.operator.restored(case.emulated)
    seed = int(np.random.default_rng([case.seed, 2]).integers(1, 2**31))
    computed = case.operator.typed(problem)
    inputs = computed.inputs(problem, seed)
    reference = _expected(computed, problem, inputs)
    execution = execute(case, case.launches, inputs)
    if (fault := _fault("other inputs", computed, problem, reference, execution, seed=seed)) is not None:
        return TrialOutcome((fault,))
    planned = plan(computed.declaration, problem)
    base = _Base(problem, planned, inputs, reference, execution.outputs, case.launches, seed)
    dependent = _dependences(case, computed, base)
    faults = [*dependent.faults]
    faults += filter(None, [_extreme(case, computed, base), _kept_results(case, computed, base)])
    faults += _aliased(case, computed, base)
    faults += filter(None, [_imprecise(case, computed, base)])
    deterministic, order_faults = _orders(case, base)
    return replace(dependent, faults=(*faults, *order_faults), deterministic=deterministic)


def _dependences(case: Case, computed: Declared, base: _Base) -> TrialOutcome:
    """Draw each input again, alone, and compare how outputs and their references change."""
    shares: dict[str, dict[str, float]] = {output.name: {} for output in computed.declaration.outputs}
    moved: dict[str, NDArray[np.bool_]] = {}
    faults: list[Fault] = []
    tried = False
    for name in _drawn_inputs(computed.declaration):
        changed = _redrawn(computed.declaration, base, name)
        try:
            reference = _expected(computed, base.problem, changed)
        except UserError:  # a reference that refuses an input says nothing about a candidate
            continue
        tried = True
        execution = execute(case, base.launches, changed)
        if execution.finding is not None:
            faults.append(of_finding("input dependence", execution.finding, seed=base.seed))
            continue
        for output in computed.declaration.outputs:
            before, after = base.reference[output.name], reference[output.name]
            change = _change(output, before, after)
            scale = np.maximum(before.scale, after.scale).reshape(-1)
            with np.errstate(all="ignore"):
                is_moved = np.isfinite(change) & (np.abs(change) > _MOVED * scale) & np.isfinite(scale)
            if not is_moved.any():
                continue
            moved[output.name] = is_moved | moved.get(output.name, np.zeros(is_moved.shape, np.bool_))
            own = _difference(output, execution.outputs[output.name], base.outputs[output.name])
            with np.errstate(all="ignore"):
                follows = np.abs(own - change) <= _FOLLOWED * np.abs(change)
            shares[output.name][name] = float(is_moved.mean())
            if not follows[is_moved].all():
                faults.append(_independent(output, name, own=own, change=change, wrong=is_moved & ~follows, base=base))
    dependences = tuple(
        Dependence(name, on, float(moved[name].mean()) if name in moved else 0.0) for name, on in shares.items()
    )
    gaps = tuple(_undecided(computed, dependences))
    return TrialOutcome(tuple(faults), dependences, not_shown=gaps, tried_inputs=tried and not faults)


def _undecided(computed: Declared, dependences: Sequence[Dependence]) -> Iterator[str]:
    """Yield a sentence for each output whose reference changed with no input by more than its tolerance."""
    drawn = _drawn_inputs(computed.declaration)
    for dependence in dependences:
        if not dependence.on and not drawn:
            yield f"no input was changed for {dependence.argument}: the task says what every array holds"


def constant_outputs(outcome: TrialOutcome) -> tuple[str, ...]:
    """Return the outputs that no changed input moves beyond the tolerance: the task cannot tell them from constants."""
    return tuple(one.argument for one in outcome.dependences if outcome.tried_inputs and not one.on)


def _independent(
    output: Argument,
    name: str,
    *,
    own: NDArray[Any],
    change: NDArray[Any],
    wrong: NDArray[np.bool_],
    base: _Base,
) -> Fault:
    """Return the fault of an output that does not change with an input as its reference does."""
    place = int(np.argmax(wrong))
    element = tuple(int(index) for index in np.unravel_index(place, base.planned.shapes[output.name]))
    at = ", ".join(map(str, element))
    if not np.any(own[wrong]):
        reason = (
            f"{output.name} does not depend on {name}: with other values there, {output.name}[{at}] stays the same, "
            f"its reference changes by {abs(change[place]):.3g}"
        )
        return Fault(Ruling.CHEATING, "input dependence", reason, output.name, element, seed=base.seed)
    reason = (
        f"with other values in {name}, {output.name}[{at}] changes by {own[place]:.6g}, "
        f"its reference by {change[place]:.6g}"
    )
    return Fault(
        Ruling.WRONG,
        "input dependence",
        reason,
        output.name,
        element,
        f"{own[place]:.6g}",
        f"{change[place]:.6g}",
        seed=base.seed,
    )


def _drawn_inputs(declaration: Declaration) -> tuple[str, ...]:
    """Return the arrays whose contents are random, so that other values can be drawn."""
    return tuple(
        argument.name
        for argument in declaration.arguments
        if argument.is_array
        and argument.direction in (Direction.IN, Direction.INOUT)
        and argument.fill is not None
        and argument.fill.kind in (FillKind.NORMAL, FillKind.UNIFORM)
    )


def _redrawn(declaration: Declaration, base: _Base, name: str) -> Inputs:
    """Return the inputs with other values in one array, within what the task declares."""
    argument = declaration.argument[name]
    seed = zlib.crc32(f"{base.seed} {name}".encode())
    values = contents(argument, base.planned, seed, Path(declaration.folder))
    if argument.fill is not None and argument.fill.is_default and argument.element.kind in _REAL:
        factor, term = _SHIFTED
        values = argument.element.stored(factor * argument.element.widened(values) + term)
    return replace(base.inputs, arrays={**base.inputs.arrays, name: values})


_REAL: Final = (ElementKind.FLOAT, ElementKind.COMPLEX)


def _change(output: Argument, before: Expected, after: Expected) -> NDArray[Any]:
    """Return the change of an output's expected values, in the order of the output."""
    held = [np.asarray(getattr(expected, "held", expected.values)) for expected in (before, after)]
    return _subtracted(output, held[1].reshape(-1), held[0].reshape(-1))


def _difference(output: Argument, after: Array, before: Array) -> NDArray[Any]:
    """Return the change of an output's contents."""
    return _subtracted(output, _numbers(output.element, after), _numbers(output.element, before))


def _subtracted(output: Argument, after: NDArray[Any], before: NDArray[Any]) -> NDArray[Any]:
    if output.is_unordered:
        after, before = np.sort(after), np.sort(before)
    wide = np.complex128 if after.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(after.astype(wide) - before.astype(wide))


def _numbers(element: ElementType, stored: Array) -> NDArray[Any]:
    flat = np.ascontiguousarray(stored).reshape(-1)
    if element.kind is ElementKind.BOOL:
        return flat.view(np.uint8)
    return flat if element.is_exact else element.widened(flat)


# --- extreme values -----------------------------------------------------------------------------------------------

_HUGE: Final = {"float16": 2.0**3, "float8_e4m3fn": 2.0, "float8_e5m2": 2.0}
_HUGE_OTHERS: Final = 2.0**9
"""Factor of floats in the set of huge values, by type; references that overflow are not compared."""


def _extreme(case: Case, computed: Declared, base: _Base) -> Fault | None:
    """Execute on huge values, and on the constants that the candidate compares numbers with."""
    for words, values_for in (("huge values", _huge), ("the constants that the kernel compares with", _special)):
        arrays = dict(base.inputs.arrays)
        changed = False
        for argument in computed.declaration.arguments:
            if argument.fill is None or not argument.fill.is_default or not argument.is_array:
                continue
            values = values_for(case, argument, arrays[argument.name])
            if values is not None:
                arrays[argument.name], changed = values, True
        if not changed:
            continue
        inputs = replace(base.inputs, arrays=arrays)
        try:
            reference = _expected(computed, base.problem, inputs)
        except UserError:
            continue
        if not all(_fits(computed.declaration.argument[name], expected) for name, expected in reference.items()):
            continue
        reference = _widened(computed, base.problem, inputs, reference)
        execution = execute(case, base.launches, inputs)
        named = f"with {words}"
        fault = _fault("extreme values", computed, base.problem, reference, execution, prefix=named, seed=base.seed)
        if fault is not None:
            return fault
    return None


def _widened(
    computed: Declared,
    problem: Any,  # noqa: ANN401 - each operator has its own
    inputs: Inputs,
    reference: Mapping[str, Expected],
) -> Mapping[str, Expected]:
    """Return a reference whose errors may also reach the bound on rounding errors: they grow with the inputs."""
    if not computed.declaration.tolerances:
        return reference
    try:
        rounded = _expected(Declared(replace(computed.declaration, tolerances=())), problem, inputs)
    except UserError:
        return reference
    return {
        name: replace(expected, scale=np.maximum(expected.scale, rounded[name].scale))
        for name, expected in reference.items()
    }


def _fits(output: Argument, expected: Expected) -> bool:
    """Return whether an output's type holds all expected values."""
    if output.element.is_exact:
        return True
    largest = float(np.abs(output.element.widened(output.element.stored(expected.values.reshape(-1)))).max(initial=0.0))
    return bool(np.isfinite(expected.values).all()) and np.isfinite(largest)


def _huge(case: Case, argument: Argument, values: Array) -> Array | None:
    del case
    if argument.element.kind is not ElementKind.FLOAT:
        return None
    factor = _HUGE.get(argument.dtype, _HUGE_OTHERS)
    return argument.element.stored(factor * argument.element.widened(values))


def _special(case: Case, argument: Argument, values: Array) -> Array | None:
    """Return values with the constants of the candidate's comparisons, and their neighbours, in one eighth of them."""
    constants = [
        value for value in case.float_constants if argument.element.kind is ElementKind.FLOAT and abs(value) < _LARGEST
    ]
    if not constants:
        return None
    near = np.array([near for value in constants for near in (value, value * 1.01, value * 0.99, -value, 2 * value)])
    rng = np.random.default_rng([case.seed, zlib.crc32(argument.name.encode()), 3])
    chosen = rng.random(values.size) < _SHARE
    mixed = np.where(chosen, rng.choice(near, values.size), argument.element.widened(values))
    return argument.element.stored(mixed)


_LARGEST: Final = 2.0**12
_SHARE: Final = 1 / 8


# --- large sizes --------------------------------------------------------------------------------------------------

_LARGE_BYTES: Final = 1 << 29
_LARGE_SECONDS: Final = 3.0
"""Bytes of a larger problem, and processor seconds that it may take."""


def try_larger(case: Case, task: FullSizeTask) -> tuple[tuple[Fault, ...], int]:
    """Execute whole problems between the emulated size and the problem's own, as long as they are quick.

    This is for outputs whose values cannot be compared for sampled blocks, as sums by atomics.

    Returns:
        Faults, and the largest field of a problem that was executed.
    """
    computed, before, reached = case.operator, 0, 0
    seconds = spent = 0.0
    for sized in (*_multiples(case), task.full):
        problem = computed.restored(sized.problem)
        size = computed.bytes_moved(problem)
        if size > _LARGE_BYTES or (before and spent + seconds * size / before > _LARGE_SECONDS):
            return (), reached
        inputs = computed.inputs(problem, case.seed)
        if not before:  # which makes the machine code, so that the next one shows the time
            execute(case, sized.launches, inputs, LaunchMode(whole=True, counted=False))
        begin = time.process_time()
        execution = execute(case, sized.launches, inputs, LaunchMode(whole=True, counted=False))
        words = ", ".join(f"{name} = {value}" for name, value in sized.problem.items() if _size(value))
        if execution.finding is not None:
            return (of_finding("large sizes", execution.finding, problem=sized.problem, seed=case.seed),), reached
        largest, tolerance, worst = computed.verify(problem, _expected(computed, problem, inputs), execution.outputs)
        if largest > tolerance:
            fault = of_difference("large sizes", worst, prefix=f"with {words}", problem=sized.problem, seed=case.seed)
            return (fault,), reached
        for name, sparse in _sparse_inputs(computed, sized.problem, inputs, case.seed):
            expected = _expected(computed, problem, sparse)
            outputs = execute(case, sized.launches, sparse, LaunchMode(whole=True, counted=False)).outputs
            largest, tolerance, worst = computed.verify(problem, expected, outputs)
            if largest > tolerance:
                prefix = f"with {words}, and zeros but for one element of {name}"
                return (
                    of_difference("large sizes", worst, prefix=prefix, problem=sized.problem, seed=case.seed),
                ), reached
        seconds, before = time.process_time() - begin, size
        spent += seconds
        reached = max(reached, *(int(_size(value)) for value in sized.problem.values()))
    return (), reached


def _multiples(case: Case) -> Iterator[SizedLaunches]:
    """Yield the emulated problem with all sizes multiplied alike, up to the problem's own, in small steps of work."""
    point = case.variant.planned.point
    base = point.problem.emulate
    assert base is not None  # noqa: S101 - every task has one
    sizes = smaller_sizes(base, point.problem.values)
    step = 4 if len(sizes) == 1 else 2
    factor = step
    while sizes and all(size * factor < real for size, real in sizes.values()):
        larger = {name: size * factor for name, (size, _) in sizes.items()}
        if (sized := resized_launches(case.context, case.variant, base, larger)) is not None:
            yield SizedLaunches(sized[1], sized[0])
        factor *= step


def reduces(case: Case) -> bool:
    """Return whether many input elements make one output element, so that bounds on errors are wide."""
    problem = case.operator.restored(case.variant.planned.point.problem.values)
    computed = case.operator.typed(problem)
    shapes = plan(computed.declaration, problem).shapes
    read = max((math.prod(shapes[name]) for name in _drawn_inputs(computed.declaration)), default=0)
    written = min(math.prod(shapes[output.name]) for output in computed.declaration.outputs)
    return read >= _MANY * written


_MANY: Final = 256


_SPARSE_ARRAYS: Final = 2
_SPIKE: Final = 1000.0


def _sparse_inputs(
    computed: Declared, problem: Mapping[str, Scalar], inputs: Inputs, seed: int
) -> Iterator[tuple[str, Inputs]]:
    """Yield inputs of which one array is zero but for one element: the bound on a long sum's errors hides no part then.

    Only arrays that may hold zeros are changed.
    """
    declaration = computed.typed(problem).declaration
    planned = plan(declaration, problem)
    for name in _drawn_inputs(declaration)[:_SPARSE_ARRAYS]:
        argument, values = declaration.argument[name], inputs.arrays[name]
        high = _SPIKE
        if argument.fill is not None and not argument.fill.is_default:
            bounds = argument.fill.operands
            low, high = (_number(text, planned.names) for text in bounds) if len(bounds) == _ENDS else (1, 1)
            if argument.fill.kind is not FillKind.UNIFORM or low > 0 or high <= 0:
                continue
            high -= 1 if argument.element.is_exact else 0
        sparse = np.zeros(values.size)
        sparse[int(np.random.default_rng([seed, zlib.crc32(name.encode()), 4]).integers(values.size))] = high
        arrays = {**inputs.arrays, name: argument.element.stored(sparse)}
        yield name, replace(inputs, arrays=arrays)


_ENDS: Final = 2


def _number(text: str, names: Mapping[str, Scalar]) -> float:
    """Return the number that an expression of a task stands for."""
    value = evaluate(text, names, at=Location("arguments"), key="arguments")
    return float(value) if isinstance(value, int | float) else 0.0


# --- earlier launches, aliases, precision, orders -----------------------------------------------------------------


def _kept_results(case: Case, computed: Declared, base: _Base) -> Fault | None:
    """Launch again on other inputs; outputs that equal those of the first launch were kept from it."""
    spaces = {variable.space for program in case.programs for _, _, variable in program.memory_variables()}
    if "global" not in spaces and not base.inputs.scratch:
        return None
    mode = LaunchMode(counted=False, state=DeviceState(), excused=case.excused)
    memory = DeviceMemory(base.inputs, base.launches)
    run_sequence(case.variant.ptx, base.launches, memory, mode)
    inputs = base.inputs
    for name in _drawn_inputs(computed.declaration):  # which tell zeros from a reference that is nearly zero
        inputs = _redrawn(computed.declaration, replace(base, inputs=inputs, seed=base.seed + 1), name)
    try:
        reference = _widened(computed, base.problem, inputs, _expected(computed, base.problem, inputs))
    except UserError:
        return None
    second = memory.with_inputs(inputs)
    run_sequence(case.variant.ptx, base.launches, second, mode)
    largest, tolerance, worst = computed.verify(base.problem, reference, second.outputs)
    if largest <= tolerance:
        return None
    largest, tolerance, _ = computed.verify(base.problem, base.reference, second.outputs)
    ruling = Ruling.CHEATING if largest <= tolerance else Ruling.WRONG
    words = "the second launch returns the results of the first" if ruling is Ruling.CHEATING else "launched again"
    return of_difference("second launch", worst, ruling=ruling, prefix=words, seed=base.seed + 1)


def _aliased(case: Case, computed: Declared, base: _Base) -> Iterator[Fault]:
    """Pass an output and an input as one array, for each pair that the task allows."""
    for output, source in case.task.raw.policy.aliases:
        renamed = tuple(
            replace(
                step,
                arguments=tuple((output if name == source else name, kind) for name, kind in step.arguments),
            )
            for step in base.launches.steps
        )
        arrays = {**base.inputs.arrays, output: base.inputs.arrays[source].copy()}
        required = tuple(name for name in base.inputs.required if name != output)
        inputs = replace(base.inputs, arrays=arrays, required=required)
        execution = execute(case, replace(base.launches, steps=renamed), inputs)
        words = f"where {output} and {source} are one array"
        fault = _fault("aliasing", computed, base.problem, base.reference, execution, prefix=words, seed=base.seed)
        if fault is not None:
            yield fault


_LEVEL: Final = 8.0
"""Errors of nine in ten elements, in bounds on rounding errors, that only narrower arithmetic has."""


def _imprecise(case: Case, computed: Declared, base: _Base) -> Fault | None:
    """Compare the errors with those that arithmetic in the arguments' types has, whatever the tolerance says."""
    if case.task.raw.policy.precision == "any" or not computed.declaration.tolerances:
        return None
    strict = Declared(replace(computed.declaration, tolerances=()))
    narrow = case.narrow_arithmetic
    try:
        reference = strict.reference(base.problem, base.inputs)
    except UserError:  # without a bound on errors
        return None
    for output in strict.declaration.outputs:
        if output.element.kind not in _REAL or output.is_unordered:
            continue
        expected = reference[output.name]
        got = _numbers(output.element, base.outputs[output.name])
        with np.errstate(all="ignore"):
            errors = np.abs(got - np.asarray(getattr(expected, "held", expected.values)).reshape(-1))
            errors = errors / expected.scale.reshape(-1)
        errors = errors[np.isfinite(errors)]
        if not errors.size:
            continue
        level = float(np.quantile(errors, 0.9))
        if narrow and float(errors.max()) > 1:
            reason = f"{output.name} has errors of {narrow[0]} ({narrow[1]}), up to {errors.max():.3g} x the bound"
            return Fault(Ruling.CHEATING, "precision", f"{reason} of {output.dtype}", output.name, seed=base.seed)
        if level > _LEVEL:
            reason = (
                f"{output.name} is less exact than {output.dtype}: nine in ten errors reach {level:.3g} x its bound"
            )
            return Fault(Ruling.CHEATING, "precision", reason, output.name, seed=base.seed)
    return None


def _orders(case: Case, base: _Base) -> tuple[bool | None, tuple[Fault, ...]]:
    """Return whether every order of blocks and warps gives the same bits, and the faults if it must."""
    if not any(program.depends_on_order for program in case.programs):
        return True, ()
    same = True
    for schedule in (1, 2):
        try:
            execution = execute(case, base.launches, base.inputs, LaunchMode(counted=False, schedule=schedule))
        except LabError:
            return None, ()
        same &= all(
            np.array_equal(execution.outputs[name].view(np.uint8), base.outputs[name].view(np.uint8))
            for name in execution.outputs
        )
    if same or not case.task.raw.policy.deterministic:
        return same, ()
    reason = "the bits of the outputs depend on the order of blocks and warps, and the task asks for the same ones"
    return False, (Fault(Ruling.WRONG, "determinism", reason, seed=base.seed),)
