"""Configs to JSON and back: frozen dataclasses, unions of them, no unknown fields."""

import dataclasses
import functools
import json
import reprlib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import (
    Any,
    get_args,
    get_origin,
    get_type_hints,
    Literal,
    TypeVar,
    Union,
)

from opto.hints import did_you_mean

from .text import read_json
from .unions import OpenUnion


Config = TypeVar("Config")


def to_json(config: Any) -> dict[str, Any]:
    """A config as JSON data; a member of a union has its class name under `"type"`."""
    return _write(config, type(config))


def of_kind(config: Any, kind: type[Config], what: str) -> Config:
    """The config, checked to be a `kind`; for code that handles only that kind.

    **Raises:** `ValueError` if it is of another class; the error says that `what` needs
    a `kind`.
    """
    if not isinstance(config, kind):
        got = type(config).__name__
        raise ValueError(f"{what} needs {kind.__name__}, got {got}")
    return config


def changed(found: dict[str, Any], wanted: Any) -> list[str]:
    """The fields in which stored JSON data differs from a config.

    Both are compared as this version writes them: a field that older data lacks has its
    default.

    **Raises:** `ValueError` as in `from_json`, if the data cannot be read.
    """
    stored = to_json(from_json(type(wanted), found))
    return [*differences(stored, to_json(wanted))]


def differences(found: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """The fields in which two configs differ, as `train.lr: 0.1 there, 0.2 here`."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in [*found, *(key for key in wanted if key not in found)]:
            where = f"{path}.{key}" if path else key
            pair = found.get(key, "absent"), wanted.get(key, "absent")
            yield from differences(*pair, where)
    elif found != wanted:
        yield f"{path}: {found!r} there, {wanted!r} here"


def from_json(kind: type[Config], data: dict[str, Any]) -> Config:
    """The config of class `kind` from JSON data.

    **Raises:** `ValueError`, in one line, for an unknown field or name (with the
    nearest known one), a missing field, a value of the wrong type, and a value that the
    config does not allow.
    """
    return _read(data, kind, ())


def with_fields(config: Config, settings: Iterable[str]) -> Config:
    """The config with fields replaced, each given as `path=value`.

    **Arguments:**

    - `settings`: For example `training.batch_size=64`. The path names a field, with
        dots; the value is JSON, or else a plain string.

    **Raises:** `ValueError` for a path that does not exist or is given twice, and as in
    `from_json`.
    """
    data = to_json(config)
    given: set[str] = set()
    for setting in settings:
        path, equals, text = setting.partition("=")
        if path.strip() in given:
            raise ValueError(f"config: {path.strip()!r} is set twice; set it once")
        given.add(path.strip())
        *parents, last = path.strip().split(".")
        if not equals:
            raise ValueError(f"config: expected path=value, got {setting!r}")
        place: Any = data
        for done, name in enumerate(parents):
            if not isinstance(place, dict) or name not in place:
                where = ".".join(parents[: done + 1])
                hint = did_you_mean(name, place) if isinstance(place, dict) else ""
                raise ValueError(f"config: there is no {where!r}{hint}")
            place = place[name]
        if not isinstance(place, dict):
            raise ValueError(f"config: {'.'.join(parents)!r} has no fields")
        try:
            place[last] = read_json(text)
        except json.JSONDecodeError:
            place[last] = text
        except ValueError as error:
            raise ValueError(f"config: {path.strip()}: {error}") from None
    return from_json(type(config), data)


_hints = functools.cache(get_type_hints)


def _options(kind: Any) -> tuple[Any, ...]:
    """The members of a union; of another kind, the kind itself."""
    union = get_origin(kind) in (Union, types.UnionType)
    return get_args(kind) if union else (kind,)


def _classes(kind: Any) -> dict[str, type]:
    """The dataclasses among the members of a union, by name."""
    found: dict[str, type] = {}
    for option in _options(kind):
        if _is_open(option):
            found |= option.members()
        elif dataclasses.is_dataclass(option) and isinstance(option, type):
            found[option.__name__] = option
    return found


def _is_open(kind: Any) -> bool:
    return isinstance(kind, type) and OpenUnion in kind.__bases__


def _is_union(kind: Any) -> bool:
    """Whether a class must be chosen: `None` is an option, or more may be added."""
    return len(_options(kind)) > 1 or _is_open(kind)


def _untagged(kind: Any, classes: dict[str, type]) -> str | None:
    """The class that is meant where a config names none."""
    for option in _options(kind):
        if _is_open(option) and option.untagged:
            return option.untagged
    return min(classes) if len(classes) == 1 else None


def _items(kind: Any, container: type) -> tuple[Any, ...] | None:
    """The types inside a union's `container[...]`; `None` if it has none."""
    for option in _options(kind):
        if get_origin(option) is container:
            return get_args(option)
    return None


def _write(value: Any, kind: Any) -> Any:
    if dataclasses.is_dataclass(value):
        hints = _hints(type(value))
        names = [field.name for field in dataclasses.fields(value)]
        tag = {"type": type(value).__name__} if _is_union(kind) else {}
        return tag | {name: _write(getattr(value, name), hints[name]) for name in names}
    if isinstance(value, Mapping):
        _, of = _items(kind, dict) or (str, Any)
        return {name: _write(item, of) for name, item in value.items()}
    if isinstance(value, list | tuple):
        of = (_items(kind, tuple) or (Any,))[0]
        return [_write(item, of) for item in value]
    return value


def _read(value: Any, kind: Any, path: tuple[str, ...]) -> Any:
    if value is None and types.NoneType in _options(kind):
        return None
    if (of := _items(kind, tuple)) and isinstance(value, list | tuple):
        pairs = enumerate(value)
        return tuple(_read(x, of[0], (*path, str(index))) for index, x in pairs)
    classes = _classes(kind)
    only_classes = not {float, int, str, bool} & {*_options(kind)}
    if classes and (only_classes or isinstance(value, dict)):
        return _read_object(value, classes, _untagged(kind, classes), path)
    if (of := _items(kind, dict)) and isinstance(value, dict):
        return {name: _read(x, of[1], (*path, name)) for name, x in value.items()}
    for option in _options(kind):
        # Some programs write 1.0 as 1 in JSON; a bool is not a number.
        if option is float and type(value) is int:
            return float(value)
        if type(value) is option or (type(value) is str and value in get_args(option)):
            return value
    choices = [x for option in _options(kind) for x in get_args(option)]
    hint = did_you_mean(str(value), [x for x in choices if isinstance(x, str)])
    raise _error(path, f"wanted {_name(kind)}, got {reprlib.repr(value)}{hint}")


def _read_object(
    value: Any, classes: dict[str, type], untagged: str | None, path: tuple[str, ...]
) -> Any:
    if not isinstance(value, dict):
        wanted = f"wanted an object of {' or '.join(classes)}"
        raise _error(path, f"{wanted}, got {reprlib.repr(value)}")
    fields = dict(value)
    name = fields.pop("type", untagged)
    # A class that was renamed says what it was called in older files.
    old = {getattr(each, "FORMERLY", None): each.__name__ for each in classes.values()}
    name = old.get(name, name) if isinstance(name, str) else name
    if not isinstance(name, str) or name not in classes:
        wanted = f"type must be one of {', '.join(classes)}"
        got = (
            f"got {name!r}{did_you_mean(str(name), classes)}"
            if name
            else "and is missing"
        )
        raise _error(path, f"{wanted}, {got}")
    kind = classes[name]
    others = [other for other in classes if other != name]
    assumed = "type" not in value and bool(others)
    also = f" (no type is given, so it is {name}; others are {', '.join(others)})"
    _check_names(fields, kind, path, also if assumed else "")
    hints = _hints(kind)
    arguments = {key: _read(x, hints[key], (*path, key)) for key, x in fields.items()}
    try:
        return kind(**arguments)
    except ValueError as error:
        raise _error(path, str(error)) from None


def _check_names(
    given: dict[str, Any], kind: Any, path: tuple[str, ...], also: str
) -> None:
    known = {field.name: field for field in dataclasses.fields(kind)}
    problems = [
        f"has no field {name!r}{did_you_mean(name, known)}"
        for name in given
        if name not in known
    ]
    problems += [
        f"lacks the field {name!r}"
        for name, field in known.items()
        if name not in given
        and field.default is field.default_factory is dataclasses.MISSING
    ]
    if problems:
        raise _error(path, f"{kind.__name__} {' and '.join(problems)}{also}")


def _name(kind: Any) -> str:
    """The name of a kind of value in a message."""
    names = []
    for option in _options(kind):
        origin, args = get_origin(option), get_args(option)
        if origin is Literal:
            names.append(f"one of {', '.join(map(repr, args))}")
        elif origin is tuple:
            names.append(f"a list of {_name(args[0])}")
        elif origin is dict:
            names.append("an object")
        else:
            names.append("null" if option is types.NoneType else option.__name__)
    return " or ".join(names)


def _error(path: tuple[str, ...], message: str) -> ValueError:
    where = f"{'.'.join(path)}: " if path else ""
    return ValueError(f"config: {where}{' '.join(message.split())}")
