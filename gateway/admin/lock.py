"""The lock file: approved pins as signed JSON that can be reviewed and kept in git."""

import base64
import binascii
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.admin.rows import rfc3339
from gateway.audit.checkpoint import BadCheckpoint, VerifierKey
from gateway.domain._value import value
from gateway.domain.document import Document, canonical
from gateway.domain.tools import Kind, Pin, PinStatus, Profile, Target, UpstreamId
from gateway.errors import BadCommand, Denied
from gateway.pins.catalog import HASH

VERSION = 3
"""Of the files that are written. Older ones are read, too: those of version 2 do not hold the
definitions, only their digests, and those of version 1 say nothing of approvals either."""
_CONTEXT = b"douane pins lock v1\n"
"""Precedes what is signed, so that the key's other signatures cannot pass for one of these."""
_SIGNED = {"version", "pins", "signer", "signature"}
_MEMBERS = {1: _SIGNED, 2: _SIGNED | {"hash"}, VERSION: _SIGNED | {"hash"}}
_PIN = {"server", "kind", "name", "profile", "digest"}
_APPROVED = _PIN | {"approved_by", "approved_at", "expires_at"}
_PIN_MEMBERS = {1: _PIN, 2: _APPROVED, VERSION: _APPROVED | {"definition"}}


@value
class LockedPin:
    """One definition that somebody approved."""

    target: Target
    profile: Profile
    digest: str
    approved_by: str = ""
    expires_at: float | None = None
    """When the approval ends, in seconds since the epoch; `None` for never."""


class LockSigner:
    """Signs lock files, and says whose signature it is."""

    def __init__(self, name: str, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.verifier = str(VerifierKey.of(name, key))
        """What others need to check the files: `NAME+KEYID+BASE64` (C2SP signed-note)."""

    def seal(self, pins: Iterable[Pin]) -> dict[str, Any]:
        """Return the content of a lock file with every approved pin of `pins`."""
        rows = [
            {
                "server": pin.target.server,
                "kind": pin.target.kind.value,
                "name": pin.target.name,
                "profile": pin.profile.value,
                "digest": str(pin.approved.digest),
                "approved_by": pin.approved_by,
                "approved_at": rfc3339(pin.approved_at),
                "expires_at": rfc3339(pin.expires_at),
                "definition": pin.approved.definition.content,
            }
            for pin in pins
            if pin.status is PinStatus.APPROVED and pin.approved is not None
        ]
        rows.sort(key=lambda row: (row["server"], row["kind"], row["name"], row["profile"]))
        content: dict[str, Any] = {
            "version": VERSION,
            "hash": HASH,
            "pins": rows,
            "signer": self.verifier,
        }
        signature = self._key.sign(_CONTEXT + canonical(content))
        return {**content, "signature": base64.b64encode(signature).decode()}


def open_lock(content: Any, trusted: str) -> tuple[LockedPin, ...]:
    """Return the pins of a lock file that the owner of the key `trusted` has signed.

    Raises:
        Denied: The signature is another's, or is not for this content.
        BadCommand: It is no lock file, or `trusted` is no key.

    """
    version = content.get("version") if isinstance(content, dict) else None
    if type(version) is not int or content.keys() != _MEMBERS.get(version):
        raise BadCommand("this is not a lock file of `douane pins export`")
    try:
        verifier = VerifierKey.parse(trusted)
    except BadCheckpoint as error:
        raise BadCommand(
            f"the key is not one that `douane keys list --wide` shows: {error}"
        ) from error
    if content["signer"] != str(verifier):
        raise Denied(
            "the lock file is signed by another key than the one you trust; if you trust its "
            "signer, name the key: --key NAME+ID+KEY",
            detail=str(content["signer"])[:200],
        )
    signed = {name: content[name] for name in content if name != "signature"}
    try:
        Ed25519PublicKey.from_public_bytes(verifier.public).verify(
            base64.b64decode(content["signature"], validate=True), _CONTEXT + canonical(signed)
        )
    except (InvalidSignature, binascii.Error, TypeError, ValueError) as error:
        raise Denied("the lock file was changed after it was signed; export it again") from error
    if content.get("hash", HASH) != HASH:
        raise BadCommand(f"the lock file's digests are not of the kind {HASH}; export it again")
    if not isinstance(content["pins"], list):
        raise BadCommand("the lock file has no list of pins")
    return tuple(_pin(row, version) for row in content["pins"])


def _pin(row: Any, version: int) -> LockedPin:
    if not isinstance(row, dict) or row.keys() != _PIN_MEMBERS[version]:
        raise BadCommand("an entry of the lock file has other members than it should")
    expires = row.get("expires_at")
    if not all(isinstance(row[name], str) for name in row if name not in _NO_TEXT):
        raise BadCommand("an entry of the lock file has a member that is not text")
    try:
        _require_same(row)
        return LockedPin(
            target=Target(
                server=UpstreamId(row["server"]), kind=Kind(row["kind"]), name=row["name"]
            ),
            profile=Profile(row["profile"]),
            digest=row["digest"],
            approved_by=row.get("approved_by", ""),
            expires_at=None if expires is None else _seconds(expires),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise BadCommand(f"an entry of the lock file cannot be used: {error}") from error


def _require_same(row: dict[str, Any]) -> None:
    """Return if the entry's definition is the one that its digest is of; people read the former."""
    if "definition" in row and str(Document.of(row["definition"]).digest) != row["digest"]:
        raise ValueError(f"its digest is not that of the definition of {row['name']!r}")


_NO_TEXT = frozenset({"expires_at", "definition"})


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without its zone")
    return moment.timestamp()
