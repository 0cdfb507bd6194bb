"""How far-reaching one changed member of a definition is: tables and the reading of schemas."""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.domain._value import value
from gateway.domain.drafts import REFERRED_ALONE, version_of
from gateway.domain.tools import MAPPING, Kind
from gateway.pins.effort import NARROWS_NOTHING
from gateway.pins.nested import NAMED, leads_astray, schemas_in
from gateway.pins.portable import TURNING

Steps = tuple[str | int, ...]
"""Where something is inside a definition: member names and array indexes."""


class Tier(StrEnum):
    """What a change can do to a model or to policy, mildest first; `NEW` is no change at all."""

    COSMETIC = "T0"
    TEXT = "T1"
    CONTRACT = "T2"
    RISK = "T3"
    NEW = "new"


class Absent:
    """The type of `ABSENT`."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
"""What stands where nothing is; JSON's null is something else."""

_CONTRACT_MEMBERS = {
    Kind.TOOL: frozenset({"name"}),
    Kind.PROMPT: frozenset({"name", "arguments"}),
    Kind.TEMPLATE: frozenset({"name", "uriTemplate", "mimeType"}),
    Kind.SERVER: frozenset({"capabilities"}),
}
_TEXT_MEMBERS = frozenset({"title", "description", "instructions", "$comment"})
_SUBSCHEMAS = frozenset(
    {"items", "prefixItems", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "contains"}
    | {"additionalItems", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
)
_READ_ANEW = frozenset(
    {
        "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef",
        "contentEncoding", "contentMediaType", "dependentRequired", "dependentSchemas", "else",
        "format", "if", "maxContains", "minContains", "prefixItems", "then", "unevaluatedItems",
        "unevaluatedProperties",
    }
)  # fmt: skip
"""Keywords that the versions since draft 6 do not all read alike: to some they mean nothing."""
_ROOT_TITLE = re.compile(r"(?:arguments|args|input|output|dictoutput|params|result|response)?")
_ICON_SOURCE = re.compile(r"[!-~]{1,2048}", re.ASCII)
"""To take another host apart takes time quadratic in its length: it is normalised."""
_ICON_DETAIL = re.compile(r"[A-Za-z0-9.+/-]{1,64}", re.ASCII)


@value
class Whole:
    """What has to be known of a whole schema, before and after, to tell how far a change in it reaches."""

    reads_alike: bool
    """Whether the versions of JSON Schema that the two name read both of them alike."""
    turns: bool
    """Whether either may take more because something inside of it takes less."""

    @classmethod
    def of(cls, old: Any, new: Any) -> "Whole":
        """Return what is to be known of the schema `old`, which has become `new`."""
        versions = {version_of(side if isinstance(side, dict) else {}) for side in (old, new)}
        inner = [one for side in (old, new) for _, one in schemas_in(side, "")]
        unseen = any(map(leads_astray, inner))
        differ = len(versions) > 1 and (unseen or any(_differs(one, versions) for one in inner))
        return cls(
            reads_alike=None not in versions and not differ,
            turns=unseen or any(not TURNING.isdisjoint(one) for one in inner),
        )


def _differs(schema: Mapping[str, Any], versions: Collection[str | None]) -> bool:
    beside = "$ref" in schema and len(schema.keys() - NARROWS_NOTHING) > 1
    ignored = beside and not REFERRED_ALONE.isdisjoint(versions)
    return ignored or isinstance(schema.get("items"), list) or not _READ_ANEW.isdisjoint(schema)


def tier_of(kind: Kind, at: Steps, old: Any, new: Any, *, name: str, whole: Whole) -> Tier:
    """Return how far the change of `old` to `new` at `at` reaches, in the item called `name`.

    `whole` is about the schema that it is in, if it is in one.
    What is not known to be harmless counts as text that a model may read.
    """
    member, inside = at[0], at[1:]
    if not inside and _is_nothing(old) and _is_nothing(new):
        return Tier.COSMETIC
    match kind, member:
        case Kind.TOOL, "inputSchema" if inside[:1] == (MAPPING,):
            return Tier.RISK  # whoever follows it asks about something else from now on
        case Kind.TOOL, "inputSchema" | "outputSchema":
            return _schema_tier(inside, old, new, name=name, whole=whole)
        case Kind.TOOL, "execution":
            return _execution_tier(inside, old, new)
        case _, "annotations":
            return _annotation_tier(inside, old, new)
        case _:
            return _member_tier(kind, at, old, new)


def _member_tier(kind: Kind, at: Steps, old: Any, new: Any) -> Tier:
    if at[-1] in _TEXT_MEMBERS:
        return _text_tier(old, new)
    return Tier.CONTRACT if at[0] in _CONTRACT_MEMBERS.get(kind, ()) else Tier.TEXT


def _is_nothing(content: Any) -> bool:
    return content is None or content is ABSENT


def _text_tier(old: Any, new: Any) -> Tier:
    both = isinstance(old, str) and isinstance(new, str)
    return Tier.COSMETIC if both and old.split() == new.split() else Tier.TEXT


def _annotation_tier(inside: Steps, old: Any, new: Any) -> Tier:
    if not inside:
        # Its members are judged one by one.
        return Tier.COSMETIC if _is_empty(old) and _is_empty(new) else Tier.RISK
    return _text_tier(old, new) if inside == ("title",) else Tier.RISK


def _execution_tier(inside: Steps, old: Any, new: Any) -> Tier:
    """MCP 2025-11-25: `taskSupport` is `forbidden`, `optional` or `required`."""
    if not inside and _is_empty(old) and _is_empty(new):
        return Tier.COSMETIC
    if inside != ("taskSupport",):
        return Tier.TEXT
    mild = (ABSENT, "forbidden", "optional")
    return Tier.COSMETIC if old in mild and new in mild else Tier.CONTRACT


def _is_empty(content: Any) -> bool:
    # The members of an object that comes or goes whole are changes of their own.
    return _is_nothing(content) or isinstance(content, dict)


def _schema_tier(at: Steps, old: Any, new: Any, *, name: str, whole: Whole) -> Tier:
    """Read `at` as JSON Schema does: in `properties` a `title` is a parameter, elsewhere a title."""
    owner: str | None = None
    while at:
        word, rest = at[0], at[1:]
        if word in NAMED:
            if not rest:
                # An empty map says nothing; a full one's members are changes of their own.
                return Tier.COSMETIC if _is_empty(old) and _is_empty(new) else Tier.CONTRACT
            owner, at = str(rest[0]), rest[1:]
        elif word in _SUBSCHEMAS or (word == "additionalProperties" and rest):
            owner, at = "", rest[1:] if rest and isinstance(rest[0], int) else rest
        else:
            titled = (name, True) if owner is None else (owner, False)
            return Tier.CONTRACT if rest else _keyword_tier(str(word), old, new, titled, whole)
    return Tier.CONTRACT


def _keyword_tier(word: str, old: Any, new: Any, titled: tuple[str, bool], whole: Whole) -> Tier:
    match word:
        case "$schema":
            # One inside of a schema changes how that part alone is read.
            return Tier.COSMETIC if titled[1] and whole.reads_alike else Tier.CONTRACT
        case "title":
            tells = new is not ABSENT and not _is_derived(new, *titled)
            return _text_tier(old, new) if tells else Tier.COSMETIC
        case "description" | "$comment":
            return _text_tier(old, new)
        case "additionalProperties":
            # What was closed lets in members that it does not name, once it is open.
            is_open, still = (side is ABSENT or side is True for side in (old, new))
            narrows = is_open and (still or new is False) and not whole.turns
            return Tier.COSMETIC if narrows else Tier.CONTRACT
        case _:
            return Tier.CONTRACT


def _is_derived(title: Any, owner: str, is_root: bool) -> bool:
    """Tell whether `title` says no more than the name does: what SDKs generate."""
    if not isinstance(title, str) or not title.isascii():
        return False
    told, known = (re.sub(r"[^a-z0-9]", "", text.lower()) for text in (title, owner))
    if is_root:
        return told.startswith(known) and bool(_ROOT_TITLE.fullmatch(told[len(known) :]))
    return told == known


def icons_tier(old: Any, new: Any) -> Tier:
    """Return how far a change of a definition's whole `icons` reaches.

    An icon is fetched and drawn by clients: from another host than before, or as anything but an
    image over HTTPS, it is another contract.
    """
    hosts, before = _icon_hosts(new), _icon_hosts(old)
    if hosts is None or (before and not hosts <= before):
        return Tier.CONTRACT
    plain = all(
        key in ("src", "mimeType", "sizes", "theme") and (key == "src" or _is_detail(detail))
        for icon in (new if isinstance(new, list) else ())
        for key, detail in icon.items()
    )
    return Tier.COSMETIC if plain else Tier.TEXT


def _is_detail(detail: Any) -> bool:
    parts = detail if isinstance(detail, list) else [detail]
    return all(isinstance(part, str) and _ICON_DETAIL.fullmatch(part) for part in parts)


def _icon_hosts(icons: Any) -> frozenset[str] | None:
    """Return the hosts that `icons` come from; `None` if they are anything else than icons."""
    if _is_nothing(icons):
        return frozenset()
    if not isinstance(icons, list) or not all(isinstance(icon, dict) for icon in icons):
        return None
    hosts = set()
    for icon in icons:
        source = icon.get("src")
        if not isinstance(source, str) or not _ICON_SOURCE.fullmatch(source):
            return None
        try:
            url = urlsplit(source)
        except ValueError:
            return None
        if url.scheme != "https" or not url.hostname:
            return None
        hosts.add(url.netloc)
    return frozenset(hosts)
