"""Checkpoints: a log's size and root as a signed note that may leave the machine (C2SP)."""

import base64
import binascii
import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.audit.merkle import HASH_BYTES
from gateway.domain._value import value
from gateway.domain.audit import TreeHead

_ED25519 = b"\x01"  # C2SP signed-note, signature types
_KEY_ID_BYTES = 4
_CHECKPOINT_LINES = 3


class BadCheckpoint(ValueError):
    """The text is no checkpoint, or not one that this log's key has signed."""


@value
class VerifierKey:
    """Who signs, as it is published: a name and its public key (C2SP signed-note)."""

    name: str
    """The log's origin line, which is its `log_id`."""
    public: bytes

    @classmethod
    def of(cls, name: str, key: Ed25519PrivateKey) -> "VerifierKey":
        return cls(name=name, public=key.public_key().public_bytes_raw())

    @classmethod
    def parse(cls, text: str) -> "VerifierKey":
        """Read the form that `str` gives.

        Raises:
            BadCheckpoint: It is not of that form, or its key id is another key's.

        """
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        octets = octets_of(encoded)
        if not name or octets[:1] != _ED25519 or len(octets) != 1 + HASH_BYTES:
            raise BadCheckpoint("not a verifier key: expected NAME+KEYID+BASE64 of Ed25519")
        found = cls(name=name, public=octets[1:])
        if found.key_id.hex() != key_id:
            raise BadCheckpoint("the verifier key's id does not belong to its key")
        return found

    @property
    def key_id(self) -> bytes:
        """The four bytes before a signature; a hint which key made it, no proof."""
        named = self.name.encode() + b"\n" + _ED25519 + self.public
        return hashlib.sha256(named).digest()[:_KEY_ID_BYTES]

    def __str__(self) -> str:
        encoded = base64.b64encode(_ED25519 + self.public).decode()
        return f"{self.name}+{self.key_id.hex()}+{encoded}"


def sign_note(text: str, name: str, key: Ed25519PrivateKey) -> str:
    """Return `text` with the signature line of `name` below it.

    Raises:
        ValueError: The text does not end a line, or the name cannot stand in a signature line.

    """
    if not text.endswith("\n"):
        raise ValueError("a note's text ends with a newline")
    if not name or "+" in name or any(character.isspace() for character in name):
        raise ValueError("a signer's name has no space and no plus sign")
    signature = VerifierKey.of(name, key).key_id + key.sign(text.encode())
    return f"{text}\n\u2014 {name} {base64.b64encode(signature).decode()}\n"


def open_note(note: str, verifier: VerifierKey) -> str:
    """Return the text of a note that `verifier` has signed; others may have signed it too.

    Raises:
        BadCheckpoint: It is no signed note, or that signature is missing or wrong.

    """
    text, separator, signatures = note.rpartition("\n\n")
    if not separator or not signatures.endswith("\n"):
        raise BadCheckpoint("not a signed note: no signatures below an empty line")
    signed, prefix = (text + "\n").encode(), f"\u2014 {verifier.name} "
    public = Ed25519PublicKey.from_public_bytes(verifier.public)
    for line in signatures.splitlines():
        octets = octets_of(line[len(prefix) :]) if line.startswith(prefix) else b""
        if octets[:_KEY_ID_BYTES] != verifier.key_id:
            continue
        try:
            public.verify(octets[_KEY_ID_BYTES:], signed)
        except InvalidSignature as error:
            raise BadCheckpoint("the signature does not match the note") from error
        return text + "\n"
    raise BadCheckpoint(f"not signed by {verifier.name}")


def sign_checkpoint(log_id: str, size: int, root: bytes, key: Ed25519PrivateKey) -> TreeHead:
    """Sign a tree's head; `log_id` is the origin line and the signer's name."""
    text = f"{log_id}\n{size}\n{base64.b64encode(root).decode()}\n"
    return TreeHead(log_id=log_id, size=size, root=root, note=sign_note(text, log_id, key))


def open_checkpoint(note: str, verifier: VerifierKey) -> TreeHead:
    """Return the head that `verifier` has signed for the log of its name.

    Raises:
        BadCheckpoint: Anything else.

    """
    lines = open_note(note, verifier).split("\n")
    if len(lines) <= _CHECKPOINT_LINES or lines[0] != verifier.name:
        raise BadCheckpoint("not a checkpoint of this log")
    size, root = lines[1], octets_of(lines[2])
    # The format allows one spelling of a number: no sign, no leading zero, ASCII digits.
    canonical = size.isascii() and size.isdecimal() and str(int(size[:20])) == size
    if not canonical or len(root) != HASH_BYTES:
        raise BadCheckpoint("a checkpoint needs a size and a root hash")
    return TreeHead(log_id=verifier.name, size=int(size), root=root, note=note)


def octets_of(text: str) -> bytes:
    """Return what a line of a note says in base64.

    Raises:
        BadCheckpoint: It is not base64.

    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadCheckpoint("not base64") from error
