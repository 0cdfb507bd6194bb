"""A record's exact bytes: what is hashed, stored and exported, and never serialised again."""

import operator
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson

from gateway.audit.hashing import KeyedHash, spelled
from gateway.audit.merkle import leaf_hash
from gateway.audit.redaction import Cover, Level, Levels, Redaction, Screen
from gateway.domain._value import value
from gateway.domain.audit import AuditRecord
from gateway.domain.bounded import Bounded

LARGEST_RECORD_BYTES = 64 * 1024
"""What an entry of a tile-based log can hold (C2SP tlog-tiles: a 16-bit length)."""

FIELDS = (
    "log_id", "id", "time", "kind", "principal", "client", "endpoint", "revision", "method",
    "server", "target", "effect", "pin_digest", "arguments_hmac", "arguments", "roles", "source_ip",
    "token_id", "obligations", "task", "label_before", "label_because", "label_after", "owes", "sources", "destinations", "verdict", "code",
    "reasons", "policy_digest", "config_digest", "decision_id", "approval_id", "run", "origin", "plane", "request_id", "parent", "script_sha256", "seq",
    "upstream_status", "result_hmac", "result_bytes", "duration_us", "trace_id", "parent_span", "charged", "question", "candidate", "evidence",
    "truncated",
)  # fmt: skip
"""The members of a stored record, in their order. `leaf_index` and `leaf_hash` stand beside it.

`truncated` is there only where something had to be left out, and lists what.
"""

COLUMNS = (
    "id", "time_us", "kind", "principal", "server", "target", "verdict", "code", "run",
    "decision_id",
)  # fmt: skip
"""What of a record an index can search: the same values as in its body, as `Entry.columns`."""

_SEARCHED = COLUMNS[3:]
_SEARCHABLE = frozenset({str, type(None)})

_OURS = frozenset(
    (
        "log_id", "id", "time", "kind", "principal", "effect", "pin_digest", "arguments_hmac",
        "arguments", "roles", "source_ip", "token_id", "label_before", "label_because", "label_after", "owes", "sources",
        "destinations", "verdict", "policy_digest", "config_digest", "decision_id",
        "approval_id", "run", "origin", "script_sha256", "seq", "upstream_status",
        "result_hmac", "result_bytes", "duration_us", "trace_id", "parent_span",
    )
)  # fmt: skip
"""Members in which nothing is left to be taken out: numbers, hashes, words of ours, names that we,
an issuer or a person who approves has given, and what is covered already.

The id of a person or a token at somebody else's server may well look like a secret of ours.
"""

_GIVEN = (
    *FIELDS[4 : FIELDS.index("result_hmac") + 1],
    "result",
    *FIELDS[FIELDS.index("result_bytes") : -1],
)
"""What whoever records may give, in the order of a record: `result` becomes its hash."""
_PLACE = {name: place for place, name in enumerate(_GIVEN)}
_STANDING = frozenset({"arguments", "destinations", "sources"})
"""Members that are not written down as they are given."""

# Clipped, any record fits: each of its at most 51 members is then at most 240 characters of
# at most six bytes each ("\u0000"), or 1024 bytes of other JSON.
_CLIPPED_CHARACTERS = 240
_KEPT_BYTES = 1024
_LEFT_OUT_FIRST = ("candidate", "arguments", "question")
_ANEW = frozenset({"parent", "request_id"})
"""Others' words that are another's with each call: for what a host runs its program, how a plane calls its
question, or what we say in the place of either."""
_MOST_SERVERS = 128
_LONGEST_SERVER = 64
_SOURCE_CHARACTERS = 16
_LONGEST_ID = 32
_MOST_HARMLESS = 10_000
_OCTETS = 4 * 1024**2
_TIME = re.compile(rb'"time":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]{6})?Z"')
"""What a question says of when it was asked."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@value
class Entry:
    """A record as the log takes it."""

    columns: tuple[str | int | None, ...]
    body: bytes
    """UTF-8 JSON."""
    leaf: bytes
    """The leaf hash of `body`."""


@value
class Terms:
    """By what rules records are written from now on."""

    keys: tuple[bytes, ...] = field(repr=False)
    """The record hash's, oldest first; the last one is in use."""
    levels: Levels
    screen: Screen


class RecordEncoder:
    """Turns records into entries of one log. The only way in, so redaction cannot be forgotten.

    `arguments` becomes `arguments_hmac`, and what of it the level of its tool allows stands
    beside that; `result` (bytes or parsed JSON) becomes `result_hmac`.
    """

    def __init__(self, *, log_id: str, terms: Terms) -> None:
        self.log_id = log_id
        self.keep_to(terms)

    @property
    def terms(self) -> Terms:
        return self._terms

    def keep_to(self, terms: Terms) -> None:
        """Write every further record by `terms`."""
        self._terms = terms
        self._rules = _Rules(terms)

    def encode(self, record: AuditRecord) -> Entry:
        """Return `record` as it will be stored; odd content is spelled so that it can be.

        Raises:
            ValueError: A field is not one of the contract's.

        """
        time_us = round(record.time * 1e6)
        second, microsecond = divmod(time_us, 1_000_000)
        members = {
            "log_id": self.log_id,
            "id": record.id,
            # With all six digits, so that texts sort as the times do (RFC 3339).
            "time": f"{_second(second)}.{microsecond:06d}Z",
            "kind": record.kind.value,
        }
        # Read once: the rules may be exchanged while a large record is encoded in a thread.
        members, body = self._rules.written(members, record)
        if len(body) > LARGEST_RECORD_BYTES:
            members, body = _fitting(members)
        return Entry(columns=_columns(members, time_us), body=body, leaf=leaf_hash(body))


@lru_cache(maxsize=256)
def _in_order(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the names of a record's fields in its order, and which of them others have a say in.

    Of these, apart from the rest, those that say something else in each record. Nearly all records
    have the same ones.
    """
    unknown = sorted(set(names) - _PLACE.keys())
    if unknown:
        raise ValueError(f"not a field of an audit record: {', '.join(unknown)}")
    ordered = tuple(sorted(names, key=_PLACE.__getitem__))
    told = tuple(name for name in ordered if name not in {*_OURS, "result"})
    anew = tuple(name for name in told if name in _ANEW)
    return ordered, tuple(name for name in told if name not in _ANEW), anew


class _Rules:
    """How records are written as long as the terms are the same."""

    def __init__(self, terms: Terms) -> None:
        self.levels = terms.levels
        self._hash = KeyedHash(terms.keys[-1], len(terms.keys))
        self._cover = Cover(self._hash.of, terms.screen)
        self._harmless: Bounded[bytes, bool] = Bounded(most=_MOST_HARMLESS, octets=_OCTETS)
        """What was looked at, and nothing in it was like a secret."""

    def written(self, members: dict[str, Any], record: AuditRecord) -> tuple[dict[str, Any], bytes]:
        """Add what may be written of the fields to `members`; return all that is, and its bytes."""
        fields = record.fields
        level = self.levels.of(fields, record.tool)
        ordered, told, anew = _in_order(tuple(fields))
        for name in ordered:
            if name in _STANDING:
                members |= self._standing(name, record, members.get("arguments"), level)
            elif name == "result":
                members["result_hmac"] = self._hash.of(fields[name])
            else:
                members[name] = fields[name]
        suspected = any(self._cover.suspects(_written(members[name]), level) for name in anew)
        if suspected or not self._is_harmless([members[name] for name in told], level):
            members = {
                name: content if name in _OURS else self._cover.texts(content, level)
                for name, content in members.items()
            }
        try:
            return members, orjson.dumps(members)
        except TypeError:  # a lone surrogate, an integer beyond 64 bits, a type that is not JSON's
            members = {name: spelled(content) for name, content in members.items()}
            return members, orjson.dumps(members)

    def _standing(
        self, name: str, record: AuditRecord, shown: Any, level: Level
    ) -> Mapping[str, Any]:
        """Return what stands for a member, made once for all records of a call that have it.

        Equal is not enough: 1, 1.0 and true are, and are written differently.
        """
        content = record.fields[name]
        known = record.stands.get(name)
        if known is not None:
            found: Mapping[str, Any] = known[0]
            if all(map(operator.is_, known[1:], (self, level, content, shown))):
                return found
        found = self._covered(name, content, shown, level)
        record.stands[name] = (found, self, level, content, shown)
        return found

    def _covered(self, name: str, content: Any, shown: Any, level: Level) -> dict[str, Any]:
        if name == "arguments":
            if level.redaction is Redaction.NONE:
                return {}
            hashed = self._hash.of(content)
            return {"arguments_hmac": hashed, name: self._cover.arguments(content, level)}
        if not isinstance(content, list):
            return {name: content}
        if name == "sources":
            return {name: [self._cover.source(one, level) for one in content]}
        return {name: [self._cover.destination(one, shown, level) for one in content]}

    def _is_harmless(self, told: list[Any], level: Level) -> bool:
        """Say whether nothing in `told` looks like a secret, or is a name that is data.

        It is names of tools, methods and reasons: chosen by whoever calls, by servers and by people.
        """
        written = _written(told)
        # Records of like calls say the same, at another time. Which level holds follows from that.
        known = blake2b(_TIME.sub(b"", written), digest_size=32).digest()
        if self._harmless.get(known):
            return True
        if self._cover.suspects(written, level):
            return False
        self._harmless.put(known, kept=True)
        return True


def _written(content: Any) -> bytes:
    try:
        return orjson.dumps(content)
    except TypeError:
        return orjson.dumps(spelled(content))


def columns_of(body: bytes) -> tuple[str | int | None, ...]:
    """Return the columns that belong to a stored body.

    Raises:
        ValueError: It is no record.

    """
    try:
        members = orjson.loads(body)
        moment = datetime.fromisoformat(members["time"])
        return _columns(members, (moment - _EPOCH) // _MICROSECOND)
    except (TypeError, KeyError) as error:
        raise ValueError("not a record") from error


def _columns(members: Mapping[str, Any], time_us: int) -> tuple[str | int | None, ...]:
    found = tuple(map(members.get, _SEARCHED))
    if not _SEARCHABLE.issuperset(map(type, found)):
        found = tuple(
            told if told is None or isinstance(told, str) else orjson.dumps(told).decode()
            for told in found
        )
    return (members["id"], time_us, members["kind"], *found)


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    # Spelled once for all records of a second.
    moment = _EPOCH + timedelta(seconds=seconds)
    return moment.isoformat(timespec="seconds").removesuffix("+00:00")


def _fitting(members: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return what of a record that is too large stays within the limit, and its bytes."""
    truncated: list[str] = []
    for left_out in _LEFT_OUT_FIRST:
        if left_out in members:
            truncated.append(left_out)
            members = {name: content for name, content in members.items() if name != left_out}
            members["truncated"] = truncated
            body = orjson.dumps(members)
            if len(body) <= LARGEST_RECORD_BYTES:
                return members, body
    members = _clipped(members)
    return members, orjson.dumps(members)


def _clipped(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record's skeleton: long texts shortened, other large members left out."""
    kept: dict[str, Any] = {}
    truncated: list[str] = list(members.get("truncated", ()))
    for name, content in members.items():
        if isinstance(content, str):
            kept[name] = content[:_CLIPPED_CHARACTERS]
        elif name == "sources" and isinstance(content, list):
            kept[name] = _by_server(content)
        elif len(orjson.dumps(content)) <= _KEPT_BYTES:
            kept[name] = content
        elif name == "reasons" and isinstance(content, list):
            kept[name] = _first(content)
        if kept.get(name) != content:
            truncated.append(name)
    kept["truncated"] = truncated
    return kept


def _first(reasons: list[Any]) -> list[dict[str, str]]:
    """Return the first reasons, shortened: whoever fills a record is not to hide what was done to whom."""
    kept: list[dict[str, str]] = []
    for one in reasons:
        texts = one.items() if isinstance(one, dict) else ()
        kept.append({n: t[:_CLIPPED_CHARACTERS] for n, t in texts if isinstance(t, str)})
        if len(orjson.dumps(kept)) > _KEPT_BYTES:
            return kept[:-1]
    return kept


def _by_server(sources: list[Any]) -> list[dict[str, Any]]:
    """Return a source of each server: whoever fills a record is not to hide whose data it moves."""
    found: dict[str, dict[str, Any]] = {}
    for one in sources:
        if isinstance(one, dict) and isinstance(server := one.get("server"), str):
            short: dict[str, Any] = {"server": server}
            short["tool"] = str(one.get("tool"))[:_SOURCE_CHARACTERS]
            if _is_named(record := one.get("record")):
                short["record"] = record
            if len(server) <= _LONGEST_SERVER and len(found) < _MOST_SERVERS:
                found.setdefault(server, short)
    return list(found.values())


def _is_named(record: Any) -> bool:
    """Say whether this is a record's id, or the leaf index that an earlier version noted."""
    if isinstance(record, str):
        return len(record) <= _LONGEST_ID and record.isascii() and record.isalnum()
    return type(record) is int
