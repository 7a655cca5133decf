"""Schema validation: the base class of every schema, and conversion of pydantic's errors to user errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from lab.base.errors import Location, UserError, did_you_mean, together
from lab.base.yamlfile import Document, Key, dotted

Model = TypeVar("Model", bound=BaseModel)

_SHORT = 40
"""Longest value that an error shows in corrected form, in characters."""

_NOUNS: dict[object, str] = {int: "an integer", float: "a number", str: "text", bool: "true or false"}


class Strict(BaseModel):
    """A frozen model that does not convert values and rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def validate(model: type[Model], document: Document) -> Model:
    """Return the document as an instance of its schema.

    Raises:
        UserError: Keys do not match the schema; the error reports all of them with their lines.
    """
    if not isinstance(document.data, dict):
        raise UserError(
            "not a mapping", code="wrong-type", at=Location(document.file, 1), accepted=list(model.model_fields)
        )
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        mistakes = _mistakes(error, model, document.data)
        raise together(
            [mistake.placed(document.at(*path), dotted(path)) for path, mistake in mistakes.items()]
        ) from error


def _mistakes(error: ValidationError, model: type[BaseModel], data: object) -> dict[Key, UserError]:
    """Convert pydantic's errors to one error per offending key; a misspelt key is not also reported as missing."""
    invalid: dict[Key, UserError] = {}
    missing: dict[Key, UserError] = {}
    for detail in error.errors():
        path = _in_data(tuple(detail["loc"]), data, missing=detail["type"] == "missing")
        group = missing if detail["type"] == "missing" else invalid
        mistake = _described(detail, tuple(detail["loc"]), model)
        group[path] = _either(group[path], mistake) if path in group else mistake
    intended = {
        (*path[:-1], str(mistake.suggestion).split("'")[1]) for path, mistake in invalid.items() if mistake.suggestion
    }
    return {**invalid, **{path: mistake for path, mistake in missing.items() if path not in intended}}


def _either(first: UserError, second: UserError) -> UserError:
    """Join what two alternatives of a union accept; if it cannot be said briefly, keep only the first error."""
    texts = [mistake.accepted for mistake in (first, second)]
    if not all(isinstance(text, str) for text in texts) or texts[1] in str(texts[0]).split(" or "):
        return first
    return UserError(
        first.message, code=first.code, key=first.key, found=first.found, accepted=f"{texts[0]} or {texts[1]}"
    )


def _in_data(location: Key, data: object, *, missing: bool) -> Key:
    """Return a path without pydantic's components for union alternatives; a missing key stays, at the end."""
    path: list[str | int] = []
    for i, component in enumerate(location):
        holds = isinstance(data, dict) and component in data
        holds = holds or (isinstance(data, list) and isinstance(component, int) and component < len(data))
        if holds:
            data = data[component]  # type: ignore[index]
        if holds or (missing and i == len(location) - 1 and isinstance(data, dict)):
            path.append(component)
    return tuple(path)


def refusal(error: ValidationError, model: type[BaseModel]) -> tuple[Key, UserError]:
    """Convert the most specific of pydantic's errors to a user error.

    Returns:
        The path of the offending key, and the error; its `key` is that path, and it has no location.
    """
    # a misspelt key is also a missing one; the former is more specific
    detail = min(error.errors(), key=lambda finding: finding["type"] != "extra_forbidden")
    path: Key = tuple(detail["loc"])
    return path, _described(detail, path, model)


def _described(detail: ErrorDetails, path: Key, model: type[BaseModel]) -> UserError:
    key = dotted(path)
    if detail["type"] == "extra_forbidden":
        accepted_keys = _keys_at(model, path[:-1])
        return UserError(
            "unknown key",
            code="unknown-key",
            key=key,
            accepted=accepted_keys,
            suggestion=did_you_mean(str(path[-1]), accepted_keys),
        )
    field = _field_at(model, path)
    accepted = _accepted(field) if field else None
    if detail["type"] == "missing":
        return UserError("a key is missing", code="missing-key", key=key, accepted=accepted)
    rejected, message = detail["input"], detail["msg"].removeprefix("Value error, ")
    if isinstance(accepted, list):
        return UserError(
            "wrong value",
            code="wrong-value",
            key=key,
            found=rejected,
            accepted=accepted,
            suggestion=did_you_mean(str(rejected), accepted),
        )
    accepted = accepted or _wanted(detail)
    if accepted is None and message.startswith(
        "Input should be "
    ):  # the rest of the message describes what is accepted
        accepted = message.removeprefix("Input should be ")
    return UserError(
        "wrong value" if accepted else message, code="wrong-value", key=key, found=rejected, accepted=accepted
    )


def _wanted(detail: ErrorDetails) -> str | None:
    """Return what pydantic expected instead of a nested value; None if only its message says so."""
    bounds = detail.get("ctx", {})
    texts = {
        "int_type": _NOUNS[int],
        "int_from_float": _NOUNS[int],
        "float_type": _NOUNS[float],
        "string_type": _NOUNS[str],
        "list_type": "a list, in brackets" + _in_brackets(detail["input"]),
        "dict_type": "a mapping from names to values, such as {name: value}",
        "bool_type": _NOUNS[bool],
        "too_long": f"a list of at most {bounds.get('max_length')}",
        "greater_than_equal": f"at least {bounds.get('ge')}",
        "less_than_equal": f"at most {bounds.get('le')}",
    }
    return texts.get(detail["type"])


def _in_brackets(value: object) -> str:
    """Return a value in brackets, as the list that it should have been."""
    is_short = isinstance(value, str | int | float) and len(str(value)) <= _SHORT
    return f": [{value}]" if is_short else ""


def _accepted(field: FieldInfo) -> list[str] | str | None:
    """Return what a field of a simple type accepts; None if that cannot be said briefly."""
    kinds = [kind for kind in _alternatives(field.annotation) if kind is not type(None)]
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        return [str(value) for value in get_args(kinds[0])]
    bounds = {
        end: getattr(constraint, end)
        for constraint in field.metadata
        for end in ("ge", "le")
        if hasattr(constraint, end)
    }
    noun = _NOUNS.get(kinds[0]) if len(kinds) == 1 else None
    if noun is None or len(bounds) != len(field.metadata):  # another constraint, which pydantic's message explains
        return None
    match bounds:
        case {"ge": least, "le": most}:
            noun = f"{noun} from {least} to {most}"
        case {"ge": least}:
            noun = f"{noun} of at least {least}"
        case {"le": most}:
            noun = f"{noun} of at most {most}"
    return noun


def _alternatives(annotation: object) -> Iterator[object]:
    """Yield the members of a union; for any other type, the type itself."""
    if get_origin(annotation) in (None, Literal, list, dict, tuple):
        yield annotation
        return
    for argument in get_args(annotation):
        yield from _alternatives(argument)


def _field_at(model: type[BaseModel], path: Sequence[str | int]) -> FieldInfo | None:
    """Return the field at a path; None if the path ends inside a list or a mapping."""
    owner = _model_at(model, path[:-1])
    return owner.model_fields.get(str(path[-1])) if owner and path else None


def _keys_at(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the schema's keys at a path through nested models and lists of models."""
    owner = _model_at(model, path)
    return [field.alias or name for name, field in owner.model_fields.items()] if owner else []


def _model_at(model: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    current: Any = model
    for component in path:
        if isinstance(component, int) or component not in current.model_fields:  # an item of a list, a key of a mapping
            continue
        annotation = current.model_fields[component].annotation
        while not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            arguments = [a for a in getattr(annotation, "__args__", ()) if a is not type(None)]
            if not arguments:
                return None
            annotation = arguments[-1]
        current = annotation
    result: type[BaseModel] = current
    return result
