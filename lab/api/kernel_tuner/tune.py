"""Implementation of `lab.tune_kernel`, which has the arguments of Kernel Tuner's."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from lab.api.given import plain
from lab.api.kernel_tuner.block_geometry import SIZE_NAMES, TunedGeometry, geometry
from lab.api.kernel_tuner.named_arguments import NamedArguments, SmallerProblem, named_arguments
from lab.api.kernel_tuner.tabulated_functions import Space, constraints, tabulated
from lab.api.kernel_tuner.tuner_results import best, results
from lab.api.kernel_tuner.tuner_source import kernel_expression, source_text, uses_grid, with_tuner_macros
from lab.api.running import run_mapping
from lab.base.errors import CollectedError, Location, UserError, did_you_mean, together
from lab.base.expressions import evaluate
from lab.base.folder import Folder
from lab.base.terminal import write
from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.runs.observer import RunObserver
from lab.runs.pipeline import RunOptions
from lab.runs.services import Services
from lab.store.database import Store
from lab.toolchain.includes import gather

IGNORED: Final = ("verbose", "log", "compiler", "iterations", "observers", "platform")
"""Arguments that have no effect here; a warning says so if one is given."""

REFUSED: Final = {
    "verify": "answer with atol, which is compared as numpy.allclose does",
    "texmem_args": "arrays in global memory, which current GPUs cache in the same way",
    "defines": "tune_params, each of which is a macro; one with a single value is a constant",
}
"""Arguments that are not supported, with alternatives."""

_STRATEGIES: Final = {
    "brute_force": "",
    "random_sample": "random",
    "simulated_annealing": "annealing",
    "genetic_algorithm": "genetic",
    "diff_evo": "differential_evolution",
    "adaptive_tabu_greywolf": "tabu_greywolf",
    "bayes_opt": "surrogate",
}
"""lab's names of strategies by Kernel Tuner's."""
_LANGUAGES = (None, "CUDA", "cuda", "cupy", "CuPy", "nvcuda")
_MOST_EMULATED_THREADS = 2**17
_MOST_EMULATED_BYTES = 2**26


@dataclass(frozen=True)
class TuneCall:
    """The arguments of `lab.tune_kernel`, which documents them."""

    kernel_name: str
    kernel_source: Any
    problem_size: Any
    arguments: Any
    tune_params: Any
    grid_div: tuple[Any, Any, Any] = (None, None, None)
    restrictions: Any = None
    answer: Any = None
    atol: float = 1e-6
    lang: str | None = None
    device: int = 0
    smem_args: Any = None
    cmem_args: Any = None
    compiler_options: Any = None
    block_size_names: Any = None
    quiet: bool = False
    strategy: Any = None
    strategy_options: Mapping[str, Any] | None = None
    cache: str | Path | None = None
    metrics: Any = None
    simulation_mode: bool = False
    objective: str = "time"
    objective_higher_is_better: bool = False
    emulate: Any = None
    output: str | Path | None = None
    others: Mapping[str, Any] = field(default_factory=dict)


def tune(
    call: TuneCall,
    options: RunOptions | None = None,
    observer: RunObserver | None = None,
    services: Services | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run every setting; see `lab.tune_kernel`.

    Args:
        call: The call's arguments.
        options: Run options; the call determines the folder.
        observer: Receives progress events; none by default.
        services: The execution environment; this machine by default.

    Raises:
        UserError: An argument is invalid or not supported; the error names it.
    """
    _check(call)
    space = _space(call.tune_params)
    folder = _folder(call)
    notes: list[str] = []
    if not call.simulation_mode:
        resume = True if call.cache and (folder / "run.sqlite").is_file() else None
        run_options = replace(options or RunOptions(), output=folder, resume=resume)
        try:
            mapping, notes = experiment_of(call, space, folder)
            outcome = run_mapping(mapping, run_options, observer, services)
        except UserError as error:
            raise _renamed(error) from None
        if outcome.interrupted:
            raise KeyboardInterrupt
    with Store(folder) as store:
        run, records = store.run(), store.records()
    finished, environment = results(run, records, tuple(space), call.metrics, folder)
    environment["notes"] += notes
    chosen = best(finished, call.objective, higher_is_better=call.objective_higher_is_better)
    if chosen is not None:
        environment["best_config"] = chosen
    if not call.quiet:
        _report(chosen, space, environment)
    return finished, environment


def _check(call: TuneCall) -> None:
    """Reject unsupported arguments, and warn about those without effect."""
    mistakes = []
    for name, value in call.others.items():
        if name in REFUSED and value is not None:
            mistakes.append(UserError("not supported", code="unsupported", key=name, accepted=REFUSED[name]))
        elif name not in REFUSED and name not in IGNORED:
            names = [*IGNORED, *REFUSED, *TuneCall.__dataclass_fields__]
            mistakes.append(
                UserError("unknown argument", code="unknown-name", key=name, suggestion=did_you_mean(name, names))
            )
    if call.lang not in _LANGUAGES:
        mistakes.append(UserError("not supported", code="unsupported", key="lang", found=call.lang, accepted="CUDA"))
    if call.device != 0:
        accepted = "0; CUDA_VISIBLE_DEVICES chooses the GPU"
        mistakes.append(
            UserError("not supported", code="unsupported", key="device", found=call.device, accepted=accepted)
        )
    if call.strategy is not None and call.strategy not in _STRATEGIES:
        mistakes.append(
            UserError(
                "not supported", code="unsupported", key="strategy", found=call.strategy, accepted=tuple(_STRATEGIES)
            )
        )
    if call.simulation_mode and not call.cache:
        mistakes.append(
            UserError("no run to read was given", code="missing-key", key="simulation_mode", accepted="a cache as well")
        )
    if mistakes:
        raise together(mistakes)
    ignored = [name for name in IGNORED if call.others.get(name)]
    if ignored:
        reason = "times are measured until they are steady" if "iterations" in ignored else "they have no effect"
        warnings.warn(f"tune_kernel ignores {', '.join(ignored)}: {reason}", stacklevel=4)


def _space(parameters: Any) -> Space:  # noqa: ANN401 - any argument of the caller
    if not isinstance(parameters, Mapping):
        accepted = "a mapping from parameters to lists of values"
        raise UserError("wrong type", code="wrong-type", key="tune_params", found=parameters, accepted=accepted)
    space = {}
    for name, values in parameters.items():
        listed = plain(values, f"tune_params.{name}")
        if not isinstance(listed, list) or not listed:
            raise UserError(
                "wrong value", code="wrong-value", key=f"tune_params.{name}", found=values, accepted="a list of values"
            )
        space[str(name)] = listed
    return space


def _folder(call: TuneCall) -> Path:
    if call.output is not None:
        return Path(call.output)
    if call.cache is not None:
        return Path(call.cache).with_suffix("") if str(call.cache).endswith(".json") else Path(call.cache)
    return Path("reports") / str(call.kernel_name).partition("<")[0].rpartition("::")[2].strip()


def experiment_of(call: TuneCall, space: Space, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the call as the mapping of an experiment, and notes on omitted steps.

    Raises:
        UserError: An argument is invalid; the error names it.
    """
    text, file = source_text(call.kernel_source, space)
    launched = geometry(call.problem_size, call.grid_div, call.block_size_names, space)
    kernel = _kernel(call.kernel_name, text)
    smaller = _smaller(call, launched, space)
    arguments = named_arguments(
        call.arguments, call.answer, call.atol, kernel=kernel, smaller=smaller, reserved=[*space, *SIZE_NAMES]
    )
    source = with_tuner_macros(text, space, launched.grid, launched.sizes)
    problem = {**launched.sizes, **arguments.problem}
    mapping: dict[str, Any] = {
        "question": _question(call.kernel_name, space),
        "source": source if source != text or file is None else file,
        "kernel": kernel_expression(call.kernel_name, space),
        "problem": problem,
        "arguments": arguments.arguments,
        "parameters": dict(space),
        "constraints": _constraints(call.restrictions, space),
        "grid": list(launched.grid),
        "block": list(launched.block),
        "options": _options(call.compiler_options),
    }
    if file is not None and source != text:
        mapping["source"] = _beside(file, source, folder)
    if arguments.reference:
        mapping |= {"reference": arguments.reference, "tolerance": arguments.tolerance}
    if call.cmem_args is not None:
        mapping["constants"] = _constant_memory(call.cmem_args)
    if call.smem_args is not None:
        mapping["shared_bytes"] = _shared_bytes(call.smem_args)
    if call.strategy == "random_sample":
        mapping["search"] = _search(call, space, mapping["constraints"], problem)
    elif call.strategy not in {None, "brute_force"}:
        mapping["search"] = _strategy(call)
    emulate, notes = _emulate(call, arguments, smaller, launched=launched, space=space, source=source)
    if emulate is not None:
        mapping["emulate"] = emulate
    return mapping, notes


def _question(name: str, space: Space) -> str:
    swept = " and ".join(parameter for parameter, values in space.items() if len(values) > 1)
    return f"Which {swept} makes {name} fastest?" if swept else f"How fast is {name}?"


def _kernel(name: object, text: str) -> SourceKernel | None:
    if not isinstance(name, str) or not name.strip():
        raise UserError(
            "wrong type",
            code="wrong-type",
            key="kernel_name",
            found=name,
            accepted="the name of a kernel in the source",
        )
    base = name.partition("<")[0].strip()
    return next((kernel for kernel in read_kernels(text) if base in (kernel.name, kernel.qualified_name)), None)


def _beside(file: Path, source: str, folder: Path) -> Path:
    """Write a modified source and the files it includes, so that they are found like the original."""
    place = Folder(folder) / "input" / "given"
    place.write_below(file.name, source)
    for name in gather(source, (file.parent,))[1]:
        beside = file.parent / name
        if beside.is_file():
            place.write_below(name, beside.read_text(encoding="utf-8"))
    return place.path / file.name


def _constraints(restrictions: object, space: Space) -> list[str]:
    if restrictions is None:
        return []
    if callable(restrictions):
        called: Callable[[dict[str, Any]], Any] = restrictions
        return constraints(tabulated(called, space, "restrictions"), "restrictions")
    listed = [restrictions] if isinstance(restrictions, str) else restrictions
    if not isinstance(listed, list | tuple):
        raise UserError(
            "wrong type",
            code="wrong-type",
            key="restrictions",
            found=restrictions,
            accepted="a list of expressions, or a function",
        )
    conditions: list[str] = []
    for restriction in listed:
        if isinstance(restriction, str):
            conditions.append(restriction)
        else:
            conditions += _constraints(restriction, space)
    return conditions


def _options(options: object) -> list[str]:
    if options is None:
        return []
    if isinstance(options, list | tuple) and all(isinstance(option, str) for option in options):
        return list(options)
    raise UserError("wrong type", code="wrong-type", key="compiler_options", found=options, accepted="a list of texts")


def _constant_memory(contents: object) -> dict[str, Any]:
    """Return the contents of constant memory: arrays and NumPy scalars, by name."""
    if (
        isinstance(contents, Mapping)
        and contents
        and all(isinstance(value, np.ndarray | np.generic) for value in contents.values())
    ):
        # literal dimensions: none of them shrinks with a problem
        return {
            str(name): (f"{value.dtype.name}[{', '.join(map(str, value.shape))}]", value)
            if isinstance(value, np.ndarray) and value.ndim
            else value
            for name, value in contents.items()
        }
    raise UserError(
        "wrong value",
        code="wrong-value",
        key="cmem_args",
        found=type(contents).__name__,
        accepted="NumPy arrays by name",
    )


def _shared_bytes(shared_memory: object) -> str | int:
    if (
        isinstance(shared_memory, Mapping)
        and set(shared_memory) == {"size"}
        and isinstance(shared_memory["size"], str | int | np.integer)
    ):
        size = shared_memory["size"]
        return size if isinstance(size, str) else int(size)
    accepted = "{'size': a number of bytes, or an expression over the parameters as text}"
    raise UserError("wrong value", code="wrong-value", key="smem_args", found=shared_memory, accepted=accepted)


def _search(call: TuneCall, space: Space, limits: Sequence[str], problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return a random sample without pruning: `fraction` of the space, or `max_fevals` settings."""
    options = dict(call.strategy_options or {})
    fraction, max_settings = options.pop("fraction", None), options.pop("max_fevals", None)
    for name in options:
        raise UserError(
            "not supported", code="unsupported", key=f"strategy_options.{name}", accepted=("fraction", "max_fevals")
        )
    sample = int(max_settings) if max_settings is not None else 100
    if fraction is not None:
        valid = _valid(space, limits, problem)
        sample = max(1, math.ceil(float(fraction) * valid))
        sample = sample if max_settings is None else min(sample, int(max_settings))
    return {"sample": sample, "prune": {"spills": False, "below_prediction": 0.0, "below_measured": False}}


def _strategy(call: TuneCall) -> dict[str, Any]:
    """Return a search without pruning: at most `max_fevals` settings, in `time_limit` seconds."""
    options = dict(call.strategy_options or {})
    max_settings, seconds = options.pop("max_fevals", None), options.pop("time_limit", None)
    for name in options:
        raise UserError(
            "not supported", code="unsupported", key=f"strategy_options.{name}", accepted=("max_fevals", "time_limit")
        )
    budget = {"evaluations": 100} if max_settings is None and seconds is None else {}
    if max_settings is not None:
        budget["evaluations"] = int(max_settings)
    prune = {"spills": False, "below_prediction": 0.0, "below_measured": False}
    limit = {} if seconds is None else {"seconds": float(seconds)}
    return {"strategy": _STRATEGIES[call.strategy], **budget, **limit, "stop": None, "prune": prune}


def _valid(space: Space, limits: Sequence[str], problem: Mapping[str, Any]) -> int:
    """Return the number of settings that the restrictions allow."""
    at = Location("restrictions")
    points = (dict(zip(space, values, strict=True)) for values in itertools.product(*space.values()))
    return sum(
        all(evaluate(limit, {**problem, **point}, at=at, key="restrictions") for limit in limits) for point in points
    )


# ---- the CPU


def _smaller(call: TuneCall, launched: TunedGeometry, space: Space) -> SmallerProblem | None:
    replacement = call.emulate
    if replacement is None or isinstance(replacement, bool):
        return None
    accepted = "{'problem_size': …, 'arguments': […], 'answer': […]}, True or False"
    if not isinstance(replacement, Mapping) or not {"problem_size", "arguments"} <= set(replacement):
        raise UserError(
            "wrong value", code="wrong-value", key="emulate", found=type(replacement).__name__, accepted=accepted
        )
    for name in set(replacement) - {"problem_size", "arguments", "answer"}:
        raise UserError("unknown key", code="unknown-key", key=f"emulate.{name}", accepted=accepted)
    sizes = geometry(replacement["problem_size"], call.grid_div, call.block_size_names, space)
    if sizes.grid != launched.grid:
        raise UserError(
            "the smaller problem has a different launch",
            code="conflict",
            key="emulate.problem_size",
            found=replacement["problem_size"],
            accepted="a number for each number in problem_size, and the same expressions",
        )
    return SmallerProblem(sizes.sizes, replacement["arguments"], replacement.get("answer"))


def _emulate(
    call: TuneCall,
    arguments: NamedArguments,
    smaller: SmallerProblem | None,
    *,
    launched: TunedGeometry,
    space: Space,
    source: str,
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the problem fields to replace for emulation, and notes; no fields if the problem is small enough."""
    if call.emulate is False:
        return None, []
    if smaller is not None:
        if uses_grid(source):
            message = "the source uses its grid size, which ties it to one problem size"
            raise UserError(
                message, code="conflict", key="emulate", accepted="gridDim in place of grid_size_x, or False"
            )
        return {**smaller.sizes, **arguments.emulate}, []
    if call.emulate is True or _is_small(call, launched, space):
        return {}, []
    note = (
        "No variant was emulated: the problem is too large. Pass emulate={'problem_size': …, "
        "'arguments': […], 'answer': […]} with a smaller one, or emulate=True."
    )
    return None, [note]


def _is_small(call: TuneCall, launched: TunedGeometry, space: Space) -> bool:
    """Return whether the launch with the first values, and its memory, are small enough to emulate."""
    setting = {**{name: values[0] for name, values in space.items()}, **launched.sizes}
    at = Location("problem_size")
    sizes = [
        evaluate(size_expression, setting, at=at, key="problem_size")
        for size_expression in (*launched.grid, *launched.block)
    ]
    threads = math.prod(int(size) for size in sizes)
    return (
        threads <= _MOST_EMULATED_THREADS
        and sum(argument.nbytes for argument in call.arguments) <= _MOST_EMULATED_BYTES
    )


# ---- words

_NAMES: Final = {
    "kernel": "kernel_name",
    "source": "kernel_source",
    "parameters": "tune_params",
    "constraints": "restrictions",
    "options": "compiler_options",
    "grid": "problem_size, grid_div_x, grid_div_y, grid_div_z",
    "block": "block_size_names",
    "shared_bytes": "smem_args",
    "constants": "cmem_args",
    "reference": "answer",
    "search": "strategy_options",
}
"""Arguments of the call by the experiment keys derived from them."""


def _renamed(error: UserError) -> UserError:
    """Return a mistake under the name of the caller's argument."""
    if isinstance(error, CollectedError):
        return together([_renamed(member) for member in error.errors])
    key = error.key or ""
    top = next((name for name in _NAMES if key == name or key.startswith((f"{name}.", f"{name}["))), None)
    at = error.at if error.at and isinstance(error.at.file, Path) else None  # others are not files of the user
    return error.placed(at, error.key if top is None else _NAMES[top] + key.removeprefix(top))


def _report(chosen: Mapping[str, Any] | None, space: Space, environment: Mapping[str, Any]) -> None:
    """Print the best setting, as the tuner does unless it is told to be quiet."""
    if chosen is None:
        write("no results to report")
    else:
        setting = ", ".join(f"{name}={chosen[name]}" for name in space)
        time = f"{chosen['time']:.5g}ms ({environment['time']})"
        write(f"best performing configuration: {setting}, time={time}")
    for note in environment["notes"]:
        write(note)
    write(f"report: {environment['page']}")
