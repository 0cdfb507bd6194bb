"""A keyed hash by which equal content can be found again, and by nothing else."""

import hashlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import orjson

from gateway.domain.document import canonical, plain

_DEEPEST = 100
_BLOCK = 64
"""Octets of a block of SHA-256."""
_INNER = bytes(octet ^ 0x36 for octet in range(256))
_OUTER = bytes(octet ^ 0x5C for octet in range(256))


class Keyed:
    """HMAC-SHA256 under one key (RFC 2104), for texts so short that making the key ready is the work.

    Both keyed states are kept (section 4), which halves the time. Nor is the interpreter given up for
    it, as by the one-shot function: taking it back would wait for the writer's thread.
    """

    def __init__(self, key: bytes) -> None:
        block = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(block.translate(_INNER))
        self._outer = hashlib.sha256(block.translate(_OUTER))

    def hex(self, octets: bytes) -> str:
        """Return the code of `octets`, in hexadecimal."""
        inner = self._inner.copy()
        inner.update(octets)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()


class KeyedHash:
    """HMAC-SHA256 of content, under one of the log's keys.

    `h1:` is over a value's RFC 8785 form, so spelling does not matter; `b1:` is over bytes: those
    given, or a plain spelling of a value that has no canonical form. The number is the key's:
    under another key equal content has another hash.
    """

    def __init__(self, key: bytes, number: int = 1) -> None:
        self._hex = Keyed(key).hex
        self._of_json = f"h{number}:"
        self._of_bytes = f"b{number}:"

    def of(self, content: Any) -> str:
        """Return the hash of a JSON value, or of bytes."""
        if isinstance(content, bytes):
            return self._of_bytes + self._hex(content)
        try:
            # Of a text, orjson's spelling is the canonical one.
            form = orjson.dumps(content) if type(content) is str else canonical(content)
        except (ValueError, TypeError, RecursionError):
            return self._of_bytes + self._hex(plain(spelled(content)))
        return self._of_json + self._hex(form)


def hashes_of(keys: Sequence[bytes], content: Any) -> tuple[str, ...]:
    """Return what may stand for `content` in the log, under every key it ever had, newest first."""
    numbered = list(enumerate(keys, start=1))
    return tuple(KeyedHash(key, number).of(content) for number, key in reversed(numbered))


def spelled(content: Any, depth: int = 0) -> Any:
    """Return the nearest thing to `content` that JSON in UTF-8 can say."""
    if depth > _DEEPEST:
        return "..."
    if isinstance(content, Mapping):
        return {spelled(str(key)): spelled(inner, depth + 1) for key, inner in content.items()}
    if isinstance(content, list | tuple):
        return [spelled(inner, depth + 1) for inner in content]
    if isinstance(content, AbstractSet):
        return sorted(spelled(str(inner)) for inner in content)
    return _scalar(content)


def _scalar(content: Any) -> str | int | float | None:
    if content is None or isinstance(content, float):
        return content
    if isinstance(content, int):
        return content if -(2**63) <= content < 2**64 else hex(content)
    text = content if isinstance(content, str) else repr(content)
    return text.encode("utf-8", "backslashreplace").decode()
