"""Which keys differ between two configurations, as they are written."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.config.model import Config
from gateway.config.section import Section


def changed_keys(before: Config, after: Config, key: str) -> list[str]:
    """Return the keys in and below `key` that differ, each with its whole path."""
    return list(_differing(key, getattr(before, key), getattr(after, key)))


def _differing(path: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    members, others = _members(old), _members(new)
    if members is None or others is None:
        yield path
        return
    for name in dict.fromkeys([*members, *others]):
        yield from _differing(f"{path}.{name}", members.get(name), others.get(name))


def _members(found: Any) -> Mapping[str, Any] | None:
    if isinstance(found, Section):
        fields = type(found).model_fields.items()
        return {field.alias or name: getattr(found, name) for name, field in fields}
    return found if isinstance(found, Mapping) else None
