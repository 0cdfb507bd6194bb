"""A record's exact bytes: what is hashed, stored and exported, and never serialised again."""

import hmac
import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import orjson

from gateway.audit.merkle import leaf_hash
from gateway.domain._value import value
from gateway.domain.audit import AuditRecord
from gateway.domain.document import canonical

LARGEST_RECORD_BYTES = 64 * 1024
"""What an entry of a tile-based log can hold (C2SP tlog-tiles: a 16-bit length)."""

FIELDS = (
    "log_id", "id", "time", "kind", "principal", "client", "endpoint", "revision", "method",
    "server", "target", "effect", "pin_digest", "arguments_hmac", "arguments", "roles", "source_ip",
    "token_id", "obligations", "task", "label_before", "label_after", "sources", "destinations", "verdict", "code",
    "reasons", "policy_digest", "decision_id", "approval_id", "run", "origin", "parent", "script_sha256", "seq",
    "upstream_status", "result_hmac", "result_bytes", "duration_us", "trace_id", "question", "candidate", "evidence",
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

_ACCEPTED = frozenset(FIELDS) - {"log_id", "id", "time", "kind", "truncated"} | {"result"}

# Clipped, any record fits: each of its at most 44 members is then at most 256 characters of
# at most six bytes each ("\u0000"), or 1024 bytes of other JSON.
_CLIPPED_CHARACTERS = 256
_KEPT_BYTES = 1024
_DEEPEST = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Redaction(StrEnum):
    """How much of a call's arguments is written down. Results never are."""

    HASHED = "hashed"
    CLEAR = "clear"


@value
class Entry:
    """A record as the log takes it."""

    columns: tuple[str | int | None, ...]
    body: bytes
    """UTF-8 JSON."""
    leaf: bytes
    """The leaf hash of `body`."""


class KeyedHash:
    """A keyed hash by which equal content can be found again, and by nothing else.

    `h1:` is HMAC-SHA256 over the RFC 8785 form of a JSON value, so spelling does not matter. `b1:`
    is over bytes: those given, or a plain spelling of a value that has no canonical form.
    """

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")

    def of(self, content: Any) -> str:
        """Return the hash of a JSON value, or of bytes."""
        if isinstance(content, bytes):
            return "b1:" + self._hex(content)
        try:
            return "h1:" + self._hex(canonical(content))
        except (ValueError, RecursionError):
            spelled = json.dumps(_spelled(content), sort_keys=True, separators=(",", ":"))
            return "b1:" + self._hex(spelled.encode())

    def _hex(self, octets: bytes) -> str:
        # A copy of the keyed state, unlike the one-shot function, keeps the interpreter for small
        # content; giving it up would wait for the writer's thread.
        keyed = self._keyed.copy()
        keyed.update(octets)
        return keyed.hexdigest()


def hmac_of(key: bytes, content: Any) -> str:
    """Return `KeyedHash(key).of(content)`, for whoever needs one."""
    return KeyedHash(key).of(content)


class RecordEncoder:
    """Turns records into entries of one log. The only way in, so redaction cannot be forgotten.

    `arguments` becomes `arguments_hmac`, and stays beside it only if `redaction` is `CLEAR`;
    `result` (bytes or parsed JSON) becomes `result_hmac`.
    """

    def __init__(self, *, log_id: str, hmac_key: bytes, redaction: Redaction) -> None:
        self.log_id = log_id
        self._hash = KeyedHash(hmac_key)
        self._redaction = redaction

    def encode(self, record: AuditRecord) -> Entry:
        """Return `record` as it will be stored; odd content is spelled so that it can be.

        Raises:
            ValueError: A field is not one of the contract's.

        """
        if not record.fields.keys() <= _ACCEPTED:
            unknown = ", ".join(sorted(record.fields.keys() - _ACCEPTED))
            raise ValueError(f"not a field of an audit record: {unknown}")
        members = self._redacted(record.fields)
        time_us = round(record.time * 1e6)
        members["log_id"] = self.log_id
        members["id"] = record.id
        members["time"] = _rfc3339(time_us)
        members["kind"] = record.kind.value
        ordered = {name: members[name] for name in FIELDS if name in members}
        stored, body = _fitting(ordered)
        return Entry(columns=_columns(stored, time_us), body=body, leaf=leaf_hash(body))

    def _redacted(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        members = dict(fields)
        if "arguments" in members:
            members["arguments_hmac"] = self._hash.of(members["arguments"])
            if self._redaction is not Redaction.CLEAR:
                del members["arguments"]
        if "result" in members:
            members["result_hmac"] = self._hash.of(members.pop("result"))
        return members


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
    get = members.get
    return (
        members["id"],
        time_us,
        members["kind"],
        _text(get("principal")),
        _text(get("server")),
        _text(get("target")),
        _text(get("verdict")),
        _text(get("code")),
        _text(get("run")),
        _text(get("decision_id")),
    )


def _text(content: Any) -> str | None:
    if content is None or isinstance(content, str):
        return content
    return orjson.dumps(content).decode()


def _rfc3339(time_us: int) -> str:
    """Spell a time with all six digits, so that texts sort as the times do."""
    moment = _EPOCH + timedelta(microseconds=time_us)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _fitting(members: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return members that can be written within the limit, and their bytes."""
    try:
        body = orjson.dumps(members)
    except TypeError:  # a lone surrogate, an integer beyond 64 bits, a type that is not JSON's
        members = {name: _spelled(content) for name, content in members.items()}
        body = orjson.dumps(members)
    if len(body) <= LARGEST_RECORD_BYTES:
        return members, body
    if "arguments" in members:
        members = {name: content for name, content in members.items() if name != "arguments"}
        members["truncated"] = ["arguments"]
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
        elif len(orjson.dumps(content)) <= _KEPT_BYTES:
            kept[name] = content
        if kept.get(name) != content:
            truncated.append(name)
    kept["truncated"] = truncated
    return kept


def _spelled(content: Any, depth: int = 0) -> Any:
    """Return the nearest thing to `content` that JSON in UTF-8 can say."""
    if depth > _DEEPEST:
        return "..."
    if isinstance(content, Mapping):
        return {_spelled(str(key)): _spelled(inner, depth + 1) for key, inner in content.items()}
    if isinstance(content, list | tuple):
        return [_spelled(inner, depth + 1) for inner in content]
    if isinstance(content, AbstractSet):
        return sorted(_spelled(str(inner)) for inner in content)
    return _spelled_scalar(content)


def _spelled_scalar(content: Any) -> str | int | float | None:
    if content is None or isinstance(content, float):
        return content
    if isinstance(content, int):
        return content if -(2**63) <= content < 2**64 else hex(content)
    text = content if isinstance(content, str) else repr(content)
    return text.encode("utf-8", "backslashreplace").decode()
