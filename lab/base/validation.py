"""Typed values from plain ones: the base class of every schema, and pydantic's findings as errors for the user."""

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
"""Characters of a value that an error repeats as it should have been."""

_NOUNS: dict[object, str] = {int: "an integer", float: "a number", str: "text", bool: "true or false"}


class Strict(BaseModel):
    """A frozen model that converts nothing and refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def validate(model: type[Model], document: Document) -> Model:
    """Return the document as a value of its schema.

    Raises:
        UserError: Every key that does not fit, with its line, reported together.
    """
    if not isinstance(document.data, dict):
        raise UserError(
            "not a mapping", code="wrong-type", at=Location(document.file, 1), accepted=list(model.model_fields)
        )
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        mistakes = _mistakes(error, model, document.data)
        raise together([one.placed(document.at(*path), dotted(path)) for path, one in mistakes.items()]) from error


def _mistakes(error: ValidationError, model: type[BaseModel], data: object) -> dict[Key, UserError]:
    """Turn pydantic's findings into one error for each offending key; a mistyped key is not also a missing one."""
    found: dict[Key, UserError] = {}
    missing: dict[Key, UserError] = {}
    for detail in error.errors():
        path = _in_data(tuple(detail["loc"]), data, missing=detail["type"] == "missing")
        kept = missing if detail["type"] == "missing" else found
        one = _described(detail, tuple(detail["loc"]), model)
        kept[path] = _either(kept[path], one) if path in kept else one
    meant = {(*path[:-1], str(one.suggestion).split("'")[1]) for path, one in found.items() if one.suggestion}
    return {**found, **{path: one for path, one in missing.items() if path not in meant}}


def _either(first: UserError, other: UserError) -> UserError:
    """Join what the alternatives of a union accept; what is not said in a few words is left to the first."""
    texts = [one.accepted for one in (first, other)]
    if not all(isinstance(text, str) for text in texts) or texts[1] in str(texts[0]).split(" or "):
        return first
    return UserError(
        first.message, code=first.code, key=first.key, found=first.found, accepted=f"{texts[0]} or {texts[1]}"
    )


def _in_data(location: Key, data: object, *, missing: bool) -> Key:
    """Leave out of a path what pydantic adds for the alternatives of a union; a missing key stays, at the end."""
    path: list[str | int] = []
    for i, part in enumerate(location):
        holds = isinstance(data, dict) and part in data
        holds = holds or (isinstance(data, list) and isinstance(part, int) and part < len(data))
        if holds:
            data = data[part]  # type: ignore[index]
        if holds or (missing and i == len(location) - 1 and isinstance(data, dict)):
            path.append(part)
    return tuple(path)


def refusal(error: ValidationError, model: type[BaseModel]) -> tuple[Key, UserError]:
    """Turn the most telling of pydantic's findings into a user's error.

    Returns:
        The path of the offending key, and the error; its `key` is that path, and it names no file.
    """
    # a mistyped key is also a missing one; the former says more
    detail = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    path: Key = tuple(detail["loc"])
    return path, _described(detail, path, model)


def _described(detail: ErrorDetails, path: Key, model: type[BaseModel]) -> UserError:
    key = dotted(path)
    if detail["type"] == "extra_forbidden":
        known = _keys_at(model, path[:-1])
        return UserError(
            "unknown key", code="unknown-key", key=key, accepted=known, suggestion=did_you_mean(str(path[-1]), known)
        )
    field = _field_at(model, path)
    accepted = _accepted(field) if field else None
    if detail["type"] == "missing":
        return UserError("a key is missing", code="missing-key", key=key, accepted=accepted)
    found, message = detail["input"], detail["msg"].removeprefix("Value error, ")
    if isinstance(accepted, list):
        return UserError(
            "wrong value",
            code="wrong-value",
            key=key,
            found=found,
            accepted=accepted,
            suggestion=did_you_mean(str(found), accepted),
        )
    accepted = accepted or _wanted(detail)
    if accepted is None and message.startswith("Input should be "):  # what follows says what is accepted
        accepted = message.removeprefix("Input should be ")
    return UserError(
        "wrong value" if accepted else message, code="wrong-value", key=key, found=found, accepted=accepted
    )


def _wanted(detail: ErrorDetails) -> str | None:
    """What pydantic wanted in place of a value inside a list or a mapping; None where only its message says it."""
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
    """Show a value that should have been a list as one."""
    is_short = isinstance(value, str | int | float) and len(str(value)) <= _SHORT
    return f": [{value}]" if is_short else ""


def _accepted(field: FieldInfo) -> list[str] | str | None:
    """What a field of a plain type takes; None where its type does not say it in a few words."""
    kinds = [kind for kind in _alternatives(field.annotation) if kind is not type(None)]
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        return [str(value) for value in get_args(kinds[0])]
    bounds = {end: getattr(one, end) for one in field.metadata for end in ("ge", "le") if hasattr(one, end)}
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
    """The members of a union; a type on its own is its only member."""
    if get_origin(annotation) in (None, Literal, list, dict, tuple):
        yield annotation
        return
    for part in get_args(annotation):
        yield from _alternatives(part)


def _field_at(model: type[BaseModel], path: Sequence[str | int]) -> FieldInfo | None:
    """The field that a path ends at; None where it ends inside a list or a mapping."""
    owner = _model_at(model, path[:-1])
    return owner.model_fields.get(str(path[-1])) if owner and path else None


def _keys_at(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Keys that the schema knows at a path through nested models and lists of models."""
    owner = _model_at(model, path)
    return [field.alias or name for name, field in owner.model_fields.items()] if owner else []


def _model_at(model: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    current: Any = model
    for part in path:
        if isinstance(part, int) or part not in current.model_fields:  # an item of a list, a key of a mapping
            continue
        annotation = current.model_fields[part].annotation
        while not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            arguments = [a for a in getattr(annotation, "__args__", ()) if a is not type(None)]
            if not arguments:
                return None
            annotation = arguments[-1]
        current = annotation
    found: type[BaseModel] = current
    return found
