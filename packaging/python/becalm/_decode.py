"""Makes dataclasses of decoded JSON by their type hints."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict, Mapping, Type, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


@dataclasses.dataclass
class Record:
    """An object of becalm's JSON. ``extra`` has the fields that this package does not know."""

    extra: Dict[str, Any] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )


@functools.lru_cache(maxsize=None)
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def json_name(field: "dataclasses.Field[Any]") -> str:
    """The field's name in JSON, which may be a word of Python."""
    return field.metadata.get("json", field.name)


def decode(kind: Type[T], value: Any) -> T:
    """Makes a value of the type from decoded JSON.

    Raises TypeError or KeyError if the JSON does not have the form of the type.
    """
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin is Union:
        if value is None and type(None) in get_args(kind):
            return value
        (some,) = [one for one in get_args(kind) if one is not type(None)]
        return decode(some, value)
    if origin is list:
        (item,) = get_args(kind)
        return [decode(item, one) for one in _expect(value, list)]  # type: ignore[return-value]
    if origin is dict:
        _, item = get_args(kind)
        return {key: decode(item, one) for key, one in _expect(value, dict).items()}  # type: ignore
    if dataclasses.is_dataclass(kind):
        return _record(kind, _expect(value, dict))
    if kind is float and isinstance(value, int):
        return float(value)  # type: ignore[return-value]
    return _expect(value, kind)


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{kind.__name__} expected, not {value!r}")
    return value


def _record(kind: type, value: Mapping[str, Any]) -> Any:
    arguments: Dict[str, Any] = {}
    known = {"extra"}
    for field in dataclasses.fields(kind):
        name = json_name(field)
        known.add(name)
        if not field.init or name not in value:
            continue
        try:
            arguments[field.name] = decode(_hints(kind)[field.name], value[name])
        except TypeError as error:
            raise TypeError(f"{kind.__name__}.{field.name}: {error}") from None
    made = kind(**arguments)
    made.extra = {name: one for name, one in value.items() if name not in known}
    return made
