"""The lock file: approved pins as signed JSON that can be reviewed and kept in git."""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.audit.checkpoint import BadCheckpoint, VerifierKey
from gateway.domain._value import value
from gateway.domain.document import canonical
from gateway.domain.tools import Kind, Pin, PinStatus, Profile, Target, UpstreamId
from gateway.errors import BadCommand, Denied

VERSION = 1
_CONTEXT = b"douane pins lock v1\n"
"""Precedes what is signed, so that the key's other signatures cannot pass for one of these."""
_MEMBERS = {"version", "pins", "signer", "signature"}
_PIN_MEMBERS = {"server", "kind", "name", "profile", "digest"}


@value
class LockedPin:
    """One definition that somebody approved."""

    target: Target
    profile: Profile
    digest: str


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
            }
            for pin in pins
            if pin.status is PinStatus.APPROVED and pin.approved is not None
        ]
        rows.sort(key=lambda row: tuple(row.values()))
        content: dict[str, Any] = {"version": VERSION, "pins": rows, "signer": self.verifier}
        signature = self._key.sign(_CONTEXT + canonical(content))
        return {**content, "signature": base64.b64encode(signature).decode()}


def open_lock(content: Any, trusted: str) -> tuple[LockedPin, ...]:
    """Return the pins of a lock file that the owner of the key `trusted` has signed.

    Raises:
        Denied: The signature is another's, or is not for this content.
        BadCommand: It is no lock file, or `trusted` is no key.

    """
    if not isinstance(content, dict) or content.keys() != _MEMBERS:
        raise BadCommand("this is not a lock file of `douane pins export`")
    try:
        verifier = VerifierKey.parse(trusted)
    except BadCheckpoint as error:
        raise BadCommand(f"the key is not one that `douane keys list` shows: {error}") from error
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
    return tuple(_pin(row) for row in _rows(content))


def _rows(content: dict[str, Any]) -> list[Any]:
    rows = content["pins"]
    if content["version"] != VERSION or not isinstance(rows, list):
        raise BadCommand(f"this is not a lock file of version {VERSION}")
    return rows


def _pin(row: Any) -> LockedPin:
    if not isinstance(row, dict) or row.keys() != _PIN_MEMBERS:
        raise BadCommand("an entry of the lock file has other members than it should")
    if not all(isinstance(member, str) for member in row.values()):
        raise BadCommand("an entry of the lock file has a member that is not text")
    try:
        target = Target(server=UpstreamId(row["server"]), kind=Kind(row["kind"]), name=row["name"])
        return LockedPin(target=target, profile=Profile(row["profile"]), digest=row["digest"])
    except ValueError as error:
        raise BadCommand(f"an entry of the lock file cannot be used: {error}") from error
