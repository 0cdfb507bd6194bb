"""Cosignatures: a witness's word that it saw a log only grow, up to a checkpoint (C2SP)."""

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.audit.checkpoint import BadCheckpoint, octets_of
from gateway.audit.merkle import HASH_BYTES
from gateway.domain._value import value
from gateway.domain.audit import TreeHead

MEDIA_OF_SIZE = "text/x.tlog.size"
"""Of the body that says which size a witness has cosigned last (C2SP tlog-witness)."""

_TYPE = b"\x04"  # C2SP signed-note: timestamped Ed25519 cosignatures
_KEY_ID_BYTES = 4
_TIME_BYTES = 8
_SIGNED_BYTES = _KEY_ID_BYTES + _TIME_BYTES + 64
_END_OF_TIME = 253_402_300_800
"""The year 10000, in seconds since the epoch: what is later is no time."""
_NAME = re.compile(r"[^\s+\x00-\x1f]{1,255}")
_SIZE = re.compile(rb"(0|[1-9][0-9]{0,18})\n")


@value
class WitnessKey:
    """Who cosigns, as it is published: a name and its public key (C2SP tlog-cosignature)."""

    name: str
    public: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the form that `str` gives.

        Raises:
            BadCheckpoint: It is not of that form, or its key id is another key's.

        """
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        octets = octets_of(encoded)
        if not _NAME.fullmatch(name) or octets[:1] != _TYPE or len(octets) != 1 + HASH_BYTES:
            raise BadCheckpoint(
                "not a witness's key: expected NAME+KEYID+BASE64 of an Ed25519 key for "
                "cosignatures (type 4)"
            )
        found = cls(name=name, public=octets[1:])
        if found.key_id.hex() != key_id:
            raise BadCheckpoint("the witness key's id does not belong to its key")
        return found

    @property
    def key_id(self) -> bytes:
        """The four bytes before a cosignature; with the name they say which key made it."""
        named = self.name.encode() + b"\n" + _TYPE + self.public
        return hashlib.sha256(named).digest()[:_KEY_ID_BYTES]

    @property
    def id(self) -> str:
        """Name and key id: what distinguishes it from every other key."""
        return f"{self.name}+{self.key_id.hex()}"

    def __str__(self) -> str:
        return f"{self.id}+{base64.b64encode(_TYPE + self.public).decode()}"


@value
class Cosignature:
    """That a witness had seen nothing larger of a log, and nothing else, at a time."""

    time: int
    """When, by the witness's clock: whole seconds since the epoch."""
    line: str
    """The signature line, with its line break."""


@value
class Witnessed:
    """How much of a log a witness has seen, at the least, and when."""

    name: str
    time: int
    """By the witness's clock: whole seconds since the epoch."""
    size: int


class Sightings:
    """What given witnesses say of checkpoints that are met one after the other."""

    def __init__(self, witnesses: Sequence[WitnessKey]) -> None:
        self._newest: dict[WitnessKey, Witnessed | None] = dict.fromkeys(witnesses)

    def take(self, head: TreeHead) -> None:
        """Take what they say of a checkpoint that was found to be the log's.

        Raises:
            BadCheckpoint: A cosignature by one of them is not of this checkpoint.

        """
        for witness, before in self._newest.items():
            found = cosigned(head.note, witness)
            if found is not None and (before is None or before.size <= head.size):
                self._newest[witness] = Witnessed(
                    name=witness.name, time=found.time, size=head.size
                )

    @property
    def found(self) -> tuple[Witnessed, ...]:
        """The newest that each has cosigned."""
        return tuple(one for one in self._newest.values() if one is not None)

    @property
    def missing(self) -> str:
        """Who has cosigned nothing, as a sentence; empty if everybody has something."""
        silent = [one.name for one, found in self._newest.items() if found is None]
        return f"no checkpoint here is cosigned by {', '.join(silent)}" if silent else ""


def cosignature_in(lines: str, text: str, witness: WitnessKey) -> Cosignature | None:
    """Return the newest cosignature of `witness` among signature lines, over a note's `text`.

    `None` if there is none; lines of other keys are passed over (C2SP signed-note).

    Raises:
        BadCheckpoint: One with its name and key id is not a cosignature over that text.

    """
    found = [_opened(line, text, witness) for line in _of(lines, witness)]
    return max(found, key=lambda one: one.time, default=None)


def cosigned(note: str, witness: WitnessKey) -> Cosignature | None:
    """Return the cosignature of `witness` on a whole note; `None` if there is none.

    Raises:
        BadCheckpoint: One with its name and key id is not a cosignature of this note.

    """
    text, _, lines = note.rpartition("\n\n")
    return cosignature_in(lines, text + "\n", witness)


def add_checkpoint(old: int, proof: Sequence[bytes], note: str) -> bytes:
    """Return the body by which a witness is asked to cosign (C2SP tlog-witness).

    `proof` shows that the tree of `old` leaves grew to the note's (RFC 6962 section 2.1.2).
    """
    hashes = "".join(f"{base64.b64encode(one).decode()}\n" for one in proof)
    return f"old {old}\n{hashes}\n{note}".encode()


def size_in(body: bytes) -> int | None:
    """Return the size that a witness says it has cosigned last; `None` if it says none."""
    found = _SIZE.fullmatch(body)
    return None if found is None else int(found[1])


def _of(lines: str, witness: WitnessKey) -> Sequence[str]:
    prefix, found = f"\u2014 {witness.name} ", []
    for line in lines.split("\n"):
        if line.startswith(prefix):
            octets = octets_of(line[len(prefix) :])
            if octets[:_KEY_ID_BYTES] == witness.key_id:
                found.append(line)
    return found


def _opened(line: str, text: str, witness: WitnessKey) -> Cosignature:
    octets = octets_of(line.rpartition(" ")[2])
    stamp, signature = octets[_KEY_ID_BYTES:][:_TIME_BYTES], octets[_KEY_ID_BYTES + _TIME_BYTES :]
    time = int.from_bytes(stamp, "big")
    if len(octets) != _SIGNED_BYTES or not 0 < time < _END_OF_TIME:
        raise BadCheckpoint(f"the cosignature of {witness.name} has no time or another length")
    message = f"cosignature/v1\ntime {time}\n{text}".encode()
    try:
        Ed25519PublicKey.from_public_bytes(witness.public).verify(signature, message)
    except InvalidSignature as error:
        raise BadCheckpoint(f"the cosignature of {witness.name} does not match the note") from error
    return Cosignature(time=time, line=f"{line}\n")
