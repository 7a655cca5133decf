"""Experiments as mappings: the keys of a file, with arrays and functions as values.

The mapping is written as a file, next to everything that it needs, into the folder `INPUT` of the run directory, where
``lab run`` can repeat the experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.api.cases import ConcreteCase, cases_of, leading, operator_of, path_of, save
from lab.api.given import anchored, is_code, plain, without_file, yaml_of
from lab.base.errors import UserError
from lab.base.folder import Folder
from lab.base.yamlfile import read_text
from lab.experiment.load import from_text
from lab.experiment.model import Experiment
from lab.experiment.schema import PlainFile
from lab.isa.cuda.kernels import SourceKernel, base_name, read_kernels
from lab.operators.base import STORED_AS
from lab.operators.declared.array_files import path_for
from lab.operators.declared.elements import ELEMENT_TYPES
from lab.operators.declared.foreign import results
from lab.operators.declared.specification import parse
from lab.templates.plain.unit import SUFFIXES as SOURCES
from lab.toolchain.includes import Tree, gather, inlined, read_source

INPUT: Final = "input"
"""Folder of the generated experiment file, below the run directory."""

_INTEGERS: Final = {"int32": range(-(2**31), 2**31), "int64": range(-(2**63), 2**63)}


@dataclass(frozen=True)
class ArraysByCase:
    """An array with different contents for the emulated problem.

    Attributes:
        measured: Array of the problem.
        emulated: Array of the smaller, emulated problem.
    """

    measured: NDArray[Any]
    emulated: NDArray[Any]

    def of(self, case: ConcreteCase) -> NDArray[Any]:
        """Return the array of one case."""
        return self.emulated if case.emulated else self.measured


@dataclass
class _Reading:
    """A mapping that is being translated.

    Attributes:
        given: The mapping.
        place: Folder of the generated file and everything that it needs.
        arrays: Contents of arguments.
        data: Content of the file so far.
    """

    given: Mapping[str, Any]
    place: Folder
    arrays: dict[str, NDArray[Any] | ArraysByCase] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.place.path.absolute() / f"{name_of(self.given)}.yaml"


def name_of(mapping: Mapping[str, Any]) -> str:
    """Return the kernel's name, which is the default name of a run.

    Raises:
        UserError: There is no source.
    """
    kernel = mapping.get("kernel")
    if isinstance(kernel, str) and kernel:
        return base_name(kernel).rpartition("::")[2]
    text, path = _source(mapping)
    kernels = read_kernels(text) if path is None or path.suffix in SOURCES else ()
    return kernels[0].name if len(kernels) == 1 or (kernels and path is None) else path.stem if path else "kernel"


def written(mapping: Mapping[str, Any], run_folder: Path, *, measured: bool = True) -> Path:
    """Write the experiment file for a mapping, and everything that it needs.

    Args:
        mapping: The keys of a file of the short form. `source` may be CUDA text. In `arguments`, an array is an input's
            contents; ``("inout float32[n]", array)`` also declares it; a number is a scalar. In `reference`, an array
            holds the expected values, and a function, called in this process once per problem, returns them.
        run_folder: The run directory.
        measured: A GPU may measure; else expected values are only computed at the emulated sizes.

    Returns:
        The file.

    Raises:
        UserError: The mapping is invalid; the error names the key.
    """
    reading = _Reading(mapping, Folder(run_folder) / INPUT)
    try:
        reading.place.make()
    except OSError as error:
        raise UserError(
            f"cannot write into {reading.place.path}: {error.strerror}", code="unwritable", key="output"
        ) from error
    try:
        kernels = _copy_source(reading)
        _arguments(reading, kernels)
        _reference_text(reading)
        for name, value in mapping.items():
            if name not in reading.data and name not in ("reference", "root", "include"):
                reading.data[name] = plain(value, name)
        skeleton = _loaded(reading)
        if reading.arrays or _is_computed(mapping.get("reference")):
            _fill(reading, skeleton, measured=measured)
        _loaded(reading)
    except UserError as error:
        raise without_file(error, reading.file) from None
    return reading.file


def _loaded(reading: _Reading) -> Experiment:
    """Write the file in its current state, and validate it."""
    text = yaml_of({name: reading.data[name] for name in _in_order(reading.data)})
    reading.place.write(reading.file.name, text)
    return from_text(text, reading.file)


def _in_order(names: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Return the file's keys in the order of the schema, unknown ones last."""
    schema_keys = [name for name in ("question", *PlainFile.model_fields) if name in names]
    return list(dict.fromkeys([*schema_keys, *names]))


# ---- source


def _source(mapping: Mapping[str, Any]) -> tuple[str, Path | None]:
    """Return the source's text, and its file unless the text itself was given."""
    source = mapping.get("source")
    if not isinstance(source, str | Path) or not str(source).strip():
        accepted = "the path of a .cu, .cuh or .ptx file, or CUDA text"
        if "kernels" in mapping or "operator" in mapping:
            accepted += "; an experiment on templates is a file: lab.run('gemm.yaml')"
        raise UserError("the source is missing", code="missing-key", key="source", found=source, accepted=accepted)
    if isinstance(source, str) and is_code(source):
        return source, None
    path = Path(str(source).rpartition(":")[0]) if ".py:" in str(source) else Path(source)
    try:
        return (read_source if path.suffix in SOURCES else read_text)(path, label="the source"), path
    except UserError as error:
        raise error.placed(None, "source") from None


def _copy_source(reading: _Reading) -> tuple[SourceKernel, ...]:
    """Write the source, and the files it includes, next to the experiment."""
    text, path = _source(reading.given)
    name = path.name if path else f"{reading.file.stem}.cu"
    function = str(reading.given["source"]).rpartition(":")[2] if path and path.suffix == ".py" else ""
    reading.data["source"] = f"{name}:{function}" if function else name
    if path is None or path.suffix not in SOURCES:
        reading.place.write(name, text)
        return read_kernels(text) if path is None else ()
    text, included = gather(text, _tree(reading.given, path))
    reading.place.write(name, text)
    for below, content in included.items():
        reading.place.write_below(below, content)
    return read_kernels(inlined(text, included))


def _tree(given: Mapping[str, Any], path: Path) -> Tree:
    """Return the files that a source may include, by the keys `root` and `include`; the copies need neither."""
    folder = path.resolve().parent
    root = Path(given.get("root") or folder).resolve()
    if not folder.is_relative_to(root):
        raise UserError(
            "not a root", code="wrong-value", key="root", found=str(root), accepted=f"a folder above {folder}"
        )
    return Tree(folder, root, tuple(Path(one).resolve() for one in given.get("include") or ()))


# ---- arguments


def _arguments(reading: _Reading, kernels: Sequence[SourceKernel]) -> None:
    entries = reading.given.get("arguments")
    if not isinstance(entries, Mapping):
        return  # the schema reports what is accepted
    kernel_name = str(reading.given.get("kernel") or reading.file.stem).partition("<")[0].strip()
    matches = [kernel for kernel in kernels if kernel_name in (kernel.name, kernel.qualified_name)]
    types = (
        {parameter.name: parameter.dtype for parameter in matches[0].parameters if not parameter.is_pointer}
        if matches
        else {}
    )
    sizes = _sizes(reading.given.get("problem"))
    reading.data["arguments"] = {
        str(name): {
            str(member_name): _argument(reading, str(member_name), member, sizes, None)
            for member_name, member in value.items()
        }
        if isinstance(value, Mapping)
        else _argument(reading, str(name), value, sizes, types.get(str(name)))
        for name, value in entries.items()
    }
    constants = reading.given.get("constants")
    if isinstance(constants, Mapping):
        reading.data["constants"] = {
            str(name): _argument(reading, str(name), value, sizes, None) for name, value in constants.items()
        }


def _sizes(problem: object) -> dict[str, set[int]]:
    """Return the integer fields of a problem, which may be dimensions, each with its largest values."""
    entries = problem if isinstance(problem, list | tuple) else [problem]
    largest: dict[str, set[int]] = {}
    for entry in entries:
        for name, value in entry.items() if isinstance(entry, Mapping) else ():
            values = value if isinstance(value, list | tuple | range | np.ndarray) else [value]
            integers = [
                int(size) for size in values if isinstance(size, int | np.integer) and not isinstance(size, bool)
            ]
            if integers:
                largest.setdefault(str(name), set()).add(max(integers))
    return largest


def _argument(reading: _Reading, name: str, value: object, sizes: Mapping[str, set[int]], dtype: str | None) -> str:
    """Return the text of one argument, and register its array."""
    match value:
        case str():
            return anchored(name, value)
        case ArraysByCase():
            reading.arrays[name] = value
            return f"{_dtype_of(name, value.measured)}[{', '.join(map(str, value.measured.shape))}]"
        case np.ndarray() if value.ndim:
            reading.arrays[name] = value
            return f"{_dtype_of(name, value)}[{_shape(name, value, sizes, reading.given.get('emulate'))}]"
        case (str() as text, (np.ndarray() | ArraysByCase()) as array):
            reading.arrays[name] = array
            return _undecided(name, text)
        case bool() | int() | float() | np.generic():
            return _scalar(name, value, dtype)
        case _:
            accepted = "text such as 'out float32[n]', a NumPy array, ('inout float32[n]', array), or a number"
            raise UserError("wrong type", code="wrong-type", key=f"arguments.{name}", found=value, accepted=accepted)


def _dtype_of(name: str, array: NDArray[Any] | np.generic) -> str:
    dtype = array.dtype.name
    if dtype not in ELEMENT_TYPES or dtype in STORED_AS:
        raise UserError(
            "unknown type",
            code="unknown-name",
            key=f"arguments.{name}",
            found=str(array.dtype),
            accepted=list(ELEMENT_TYPES),
        )
    return dtype


def _shape(name: str, array: NDArray[Any], sizes: Mapping[str, set[int]], emulate: object) -> str:
    """Return the dimensions as problem fields of the same size, so that they shrink with the problem."""
    if 0 in array.shape:
        raise UserError(
            "the array is empty", code="wrong-value", key=f"arguments.{name}", accepted="at least one element"
        )
    parts = []
    for extent in array.shape:
        fields = [field for field, values in sizes.items() if max(values) == extent]
        if len(fields) > 1 and emulate:
            accepted = f'also a shape: ("{array.dtype.name}[{fields[0]}]", array)'
            message = f"a dimension of {extent} may be {' or '.join(fields)}"
            raise UserError(
                message, code="mismatch", key=f"arguments.{name}", found=list(array.shape), accepted=accepted
            )
        parts.append(fields[0] if len(fields) == 1 else str(extent))
    return ", ".join(parts)


def _undecided(name: str, text: str) -> str:
    """Return the text of an argument whose contents are given as an array."""
    argument = parse(name, text)
    if not argument.is_array:
        raise UserError(
            "a scalar cannot have contents",
            code="conflict",
            key=f"arguments.{name}",
            found=text,
            accepted="TYPE[SHAPE]",
        )
    if text.rstrip()[-1:] != "]" or argument.direction == "out":
        accepted = "'TYPE[SHAPE]' or 'inout TYPE[SHAPE]', since the array provides the contents"
        raise UserError(
            "the contents are given twice", code="duplicate", key=f"arguments.{name}", found=text, accepted=accepted
        )
    return text.strip()


def _scalar(name: str, value: bool | float | np.generic, dtype: str | None) -> str:
    """Return the text of a scalar, with NumPy's type or, for a Python number, the kernel's."""
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.generic):
        dtype = _dtype_of(name, value)
    elif dtype is None:
        kinds = [kind for kind, numbers in _INTEGERS.items() if isinstance(number, int) and number in numbers]
        dtype = (
            "bool" if isinstance(number, bool) else "float32" if isinstance(number, float) else (kinds or ["uint64"])[0]
        )
    return f"{dtype} = {str(number).lower() if isinstance(number, bool) else repr(number)}"


# ---- reference


def _is_computed(reference: object) -> bool:
    """Return whether a reference, or one of its outputs, is an array or a function."""
    if isinstance(reference, Mapping):
        return any(_is_computed(member) for member in reference.values())
    return callable(reference) or isinstance(reference, np.ndarray | ArraysByCase)


def _reference_text(reading: _Reading) -> None:
    """Copy a reference that consists only of text."""
    reference = reading.given.get("reference")
    if reference is None or _is_computed(reference):
        return
    if isinstance(reference, str) and ".py:" in reference:
        path, _, function = reference.rpartition(":")
        reading.data["reference"] = f"{Path.cwd() / path}:{function}"
    else:
        reading.data["reference"] = plain(reference, "reference")


def _fill(reading: _Reading, skeleton: Experiment, *, measured: bool) -> None:
    """Write the contents of arrays, then the expected outputs, for every problem that needs them."""
    cases = cases_of(skeleton)
    parameters = operator_of(skeleton).declaration.parameters
    fields = [name for name in cases[0].fields if name not in parameters]
    for name, array in reading.arrays.items():
        shapes = {case.arguments.shapes[name] for case in cases}
        path = path_of(name, cases, fields if len(shapes) > 1 or isinstance(array, ArraysByCase) else ())
        if isinstance(array, ArraysByCase):
            parts = [(case, array.of(case)) for case in cases]
        else:
            parts = list(leading(name, array, cases))
        for case, contents in parts:
            save(reading.place, _named(path, case), contents)
        _place(reading, name)[name] += f" {path}"
    reference = reading.given.get("reference")
    if _is_computed(reference):
        filled = _loaded(reading)
        reading.data["reference"] = _expected(reading, filled, reference, measured=measured)


def _place(reading: _Reading, name: str) -> dict[str, str]:
    """Return the table of the file that declares an array: the arguments, a struct, or the constants."""
    arguments = reading.data["arguments"]
    structures = [member for member in arguments.values() if isinstance(member, dict)]
    places: list[dict[str, str]] = [arguments, *structures, reading.data.get("constants", {})]
    return next(candidate for candidate in places if isinstance(candidate.get(name), str))


def _named(path: str, case: ConcreteCase) -> str:
    return path_for(path, case.fields)


def _expected(reading: _Reading, filled: Experiment, reference: Any, *, measured: bool) -> dict[str, Any]:  # noqa: ANN401
    operator, cases = operator_of(filled), cases_of(filled)
    outputs = tuple(output.name for output in operator.declaration.outputs)
    needed_cases = [case for case in cases if measured or case.emulated] or list(cases)
    by_output = reference if isinstance(reference, Mapping) else None
    expected: dict[str, Any] = {}
    if by_output is None and callable(reference):
        return dict(_called(reading, filled, reference, outputs, needed_cases))
    if by_output is None:
        if len(outputs) != 1:
            accepted = f"a mapping from outputs to arrays: {', '.join(outputs)}"
            raise UserError("one array for several outputs", code="mismatch", key="reference", accepted=accepted)
        by_output = {outputs[0]: reference}
    for key, value in by_output.items():
        name = str(key)
        if name not in outputs:
            expected[name] = (
                plain(value, f"reference.{name}") if isinstance(value, str) else 0
            )  # rejected later, with its key
        elif callable(value):
            expected |= _called(reading, filled, value, (name,), needed_cases)
        elif isinstance(value, np.ndarray | ArraysByCase):
            expected[name] = _held(reading, name, value, cases)
        else:
            expected[name] = plain(value, f"reference.{name}")
    return expected


def _held(reading: _Reading, name: str, value: NDArray[Any] | ArraysByCase, cases: Sequence[ConcreteCase]) -> str:
    if isinstance(value, np.ndarray) and len(cases) > 1:
        raise UserError(
            f"one array of expected values for {len(cases)} problems",
            code="mismatch",
            key=f"reference.{name}",
            accepted="an expression, or a function that is called for each, including the size to emulate",
        )
    path = path_of(f"expected-{name}", cases)
    for case in cases:
        array = value.of(case) if isinstance(value, ArraysByCase) else value
        shape = case.arguments.shapes[name]
        if array.shape != shape:
            message = f"the expected values have shape {list(array.shape)}"
            raise UserError(
                message, code="mismatch", key=f"reference.{name}", accepted=f"an array of shape {list(shape)}"
            )
        save(reading.place, _named(path, case), array)
    return path


def _called(
    reading: _Reading,
    filled: Experiment,
    function: Callable[..., object],
    outputs: tuple[str, ...],
    cases: Sequence[ConcreteCase],
) -> dict[str, str]:
    """Call a function for every problem, and save its results."""
    operator = operator_of(filled)
    function_name = getattr(function, "__name__", "the function")
    paths = {name: path_of(f"expected-{name}", cases_of(filled)) for name in outputs}
    for case in cases:
        inputs = operator.inputs(case.problem, filled.seed)
        try:
            values = results(function, function_name, operator.available(case.problem, inputs), outputs)
        except UserError as error:
            raise error.placed(None, "reference") from error.__cause__
        for name, value in values.items():
            shape = case.arguments.shapes[name]
            if value.shape not in ((), shape):
                message = f"the function returns {name} with shape {list(value.shape)}"
                raise UserError(
                    message,
                    code="user-code",
                    key=f"reference.{name}",
                    found=function_name,
                    accepted=f"shape {list(shape)}",
                )
            save(reading.place, _named(paths[name], case), np.array(np.broadcast_to(value.values, shape)))
    return paths
