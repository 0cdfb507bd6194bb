"""Reading a whole list as its upstream sent it: which definitions can be pinned, and which not."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gateway.domain._value import value
from gateway.domain.bounded import digest_of, remembered
from gateway.domain.document import Document
from gateway.domain.icons import icons_are_safe
from gateway.domain.nodes import objects_in
from gateway.domain.tools import MOST_EXPRESSIONS, Kind, Manifest, Profile, Target, UpstreamId
from gateway.domain.vocabulary import SCHEMA, confusing
from gateway.pins.names import folded
from gateway.pins.patterns import MOST_OF_A_LIST, has_patterns, making
from gateway.pins.schemas import SchemaCheck, UnusableSchema
from gateway.pins.visible import visible

HASH = "rfc8785-sha256/1"
"""Names how definitions are hashed: which members count, their canonical form, the function."""

LARGEST_DEFINITION = 256 * 1024
"""Bytes of a definition's canonical form; the largest known real one is below 16 KiB."""

DEEPEST_DEFINITION = 64
"""Levels of objects and arrays inside each other."""

_MOST_NAMED = 3
"""Names that one looks like, where it is told why it is not pinned."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}", re.ASCII)
_URI_NAME = re.compile(r"[!-~]{1,2048}", re.ASCII)
_SCHEMAS = ("inputSchema", "outputSchema")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_VOLATILE_OF_SERVER = ("_meta", "ttlMs", "cacheScope", "protocolVersion")
"""Members of the answer that describes a server which are about that answer."""


@value
class Rejected:
    """A list's item that is not pinned, so it is neither listed nor called."""

    name: str
    """Made visible; empty if it has none."""
    reason: str


@value
class CatalogReading:
    """A list, read: every item is in one of the two."""

    manifests: tuple[Manifest, ...]
    rejected: tuple[Rejected, ...]


class _Unfit(Exception):
    """An item cannot be pinned; the text says why."""


def read_list(
    server: UpstreamId,
    profile: Profile,
    kind: Kind,
    items: Sequence[Any],
    server_version: str,
    *,
    identity: str = "",
    exclude_meta: Collection[str] = (),
    approved: Collection[str] = (),
) -> CatalogReading:
    """Read the whole list of `kind` (or the one `SERVER` item) that `server` shows.

    `items` is parsed JSON; `exclude_meta` names members of an item's `_meta` that are no part of
    its definition. Of items that share a name none is taken, and of items whose plain names look
    alike, or look like one of the `approved` names, only those that are `approved` themselves.

    Raises:
        ValueError: Items of `kind` have no pins of their own.

    """
    key = _naming_member(kind)
    names = [_name_of(server, key, item) for item in items]
    allowed = _URI_NAME if kind in {Kind.TEMPLATE, Kind.RESOURCE} else _NAME
    # No other one is ever pinned, so none of those stands beside it; and they may be megabytes.
    plain = frozenset(name for name in names if allowed.fullmatch(name))
    collisions = _collisions([name for name in names if name in plain], approved)
    manifests: dict[str, Manifest] = {}
    rejected: list[Rejected] = []
    patterns = _Patterns()
    # Whatever else a server shows first, what a person approved has room before it.
    pairs = list(zip(names, items, strict=True))
    pairs.sort(key=lambda pair: pair[0] not in approved)
    for name, item in pairs:
        try:
            _require_name(name, plain, collisions)
            document = _document(kind, item, exclude_meta)
            if kind is Kind.TOOL:
                patterns.require_usable(item, document.canonical)
        except _Unfit as unfit:
            rejected.append(Rejected(name=visible(name[:256]), reason=str(unfit)))
            continue
        manifests[name] = Manifest(
            target=Target(server=server, kind=kind, name=name),
            profile=profile,
            definition=document,
            server_version=server_version,
            identity=identity,
        )
    in_order = tuple(manifests[name] for name in names if name in manifests)
    return CatalogReading(manifests=in_order, rejected=tuple(rejected))


def _naming_member(kind: Kind) -> str | None:
    """Return the member that names an item; `None` for a server, named by the configuration."""
    match kind:
        case Kind.TOOL | Kind.PROMPT:
            return "name"
        case Kind.TEMPLATE:
            return "uriTemplate"
        case Kind.RESOURCE:
            return "uri"
        case Kind.SERVER:
            return None
        case Kind.COMPLETION | Kind.SERVER_REQUEST:
            raise ValueError(f"a {kind} has no pin of its own")


def _name_of(server: UpstreamId, key: str | None, item: Any) -> str:
    if key is None:
        return server
    name = item.get(key) if isinstance(item, dict) else None
    return name if isinstance(name, str) else ""


def _collisions(names: Sequence[str], approved: Collection[str]) -> dict[str, str]:
    """Return the names that must not be taken, and why."""
    collisions: dict[str, str] = {}
    alike: dict[str, set[str]] = defaultdict(set)
    for name in (*names, *approved):
        alike[folded(name)].add(name)
    for group in alike.values():
        if len(group) > 1:
            refused = group.difference(approved)
            # A person has looked at the approved ones; of the others nobody knows which is which.
            first = sorted(group)[: _MOST_NAMED + 1]
            collisions |= {name: _like([one for one in first if one != name]) for name in refused}
    for name, times in Counter(names).items():
        if times > 1:
            collisions[name] = "its name stands more than once in the list"
    return collisions


def _like(twins: Sequence[str]) -> str:
    named = ", ".join(visible(twin[:128]) for twin in twins[:_MOST_NAMED])
    return f"its name looks like that of {named}"


def _require_name(name: str, plain: Collection[str], collisions: Mapping[str, str]) -> None:
    if name not in plain:
        raise _Unfit("it has no name, or one that is too long or not plain ASCII")
    if name in collisions:
        raise _Unfit(collisions[name])


def _document(kind: Kind, item: Any, exclude_meta: Collection[str]) -> Document:
    if not isinstance(item, dict):
        raise _Unfit("it is no object")
    if _depth(item) > DEEPEST_DEFINITION:
        raise _Unfit(f"nested deeper than {DEEPEST_DEFINITION} levels")
    if not all(icons_are_safe(place) for place in (item, item.get("serverInfo"))):
        raise _Unfit("an icon's src is neither an https nor a data URL")
    if any(confusing(item.get(member), SCHEMA) is not None for member in _SCHEMAS):
        raise _Unfit("two names in a schema are easily confused with each other")
    if kind is Kind.TEMPLATE and item["uriTemplate"].count("{") > MOST_EXPRESSIONS:
        raise _Unfit(f"its uriTemplate has more than {MOST_EXPRESSIONS} expressions")
    if any(_remote_references(item)):
        raise _Unfit("a $ref leads out of the definition: what is there cannot be pinned")
    try:
        document = Document.of(_pinned_part(kind, item, exclude_meta))
    except ValueError as error:
        raise _Unfit(str(error)) from error
    if len(document.canonical) > LARGEST_DEFINITION:
        raise _Unfit(f"larger than {LARGEST_DEFINITION} bytes")
    return document


class _Patterns:
    """What is left of what the patterns of one list may cost, however many tools have some."""

    def __init__(self) -> None:
        self._left = MOST_OF_A_LIST

    def require_usable(self, tool: Mapping[str, Any], canonical: bytes) -> None:
        if any(has_patterns(tool.get(member)) for member in _SCHEMAS):
            if self._left >= 0:
                self._left -= _making(canonical)
            if self._left < 0:
                raise _Unfit("the patterns of its whole list would take too long to be made ready")
        if problem := _unusable_schema(canonical):
            raise _Unfit(problem)


def _name(canonical: bytes) -> bytes:
    return digest_of(canonical)


@remembered(most=4096, octets=2 * 1024**2, key=_name, weigh=lambda _: 0)
def _making(canonical: bytes) -> int:
    """Return what it costs to make the patterns of a tool ready; remembered, as what comes of it is."""
    tool = json.loads(canonical)
    return sum(making(tool.get(member)) for member in _SCHEMAS)


@remembered(most=4096, octets=4 * 1024**2, key=_name, weigh=len)
def _unusable_schema(canonical: bytes) -> str:
    """Return which schema of a tool nothing can be checked by, and why; empty if there is none.

    Remembered, because the same definitions come with every list.
    """
    tool = json.loads(canonical)
    for member in _SCHEMAS:
        if tool.get(member) is not None:
            try:
                SchemaCheck(tool[member])
            except UnusableSchema as error:
                return f"{member}: {error}"
    return ""


def _pinned_part(
    kind: Kind, item: Mapping[str, Any], exclude_meta: Collection[str]
) -> dict[str, Any]:
    """Return `item` without what its operator, or the protocol, says is no part of a definition."""
    if kind is Kind.SERVER:
        pinned = {name: item[name] for name in item if name not in _VOLATILE_OF_SERVER}
        info = pinned.get("serverInfo")
        if isinstance(info, dict):
            # A new release is recorded beside the definition; it is no change of it.
            pinned["serverInfo"] = {name: info[name] for name in info if name != "version"}
        return pinned
    meta = item.get("_meta")
    if not isinstance(meta, dict) or not any(name in exclude_meta for name in meta):
        return dict(item)
    kept = {name: meta[name] for name in meta if name not in exclude_meta}
    rest = {name: item[name] for name in item if name != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


def _depth(content: Any) -> int:
    depth, level = 0, [content]
    while level:
        inner = [node for node in level if isinstance(node, dict | list)]
        level = [x for node in inner for x in (node.values() if isinstance(node, dict) else node)]
        depth += bool(inner)
    return depth


def _remote_references(item: Any) -> Iterator[bool]:
    """Yield whether each reference leads out of the definition (JSON Schema 2020-12, 8.2.3).

    A parameter may be called `$ref`: then it is a schema, an object, and no reference.
    """
    for node in objects_in(item):
        for word in _REFERENCES:
            reference = node.get(word, "#")
            if not isinstance(reference, dict | bool):
                yield not (isinstance(reference, str) and reference.startswith("#"))
