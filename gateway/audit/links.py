"""Links between checkpoints: each says which one came before it, so that none can be taken away."""

import base64
import binascii
import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.audit.checkpoint import VerifierKey
from gateway.domain._value import value

NO_CHECKPOINT = -1


@value
class Signed:
    """A checkpoint as it is stored."""

    size: int
    note: str


NOTHING = Signed(size=NO_CHECKPOINT, note="")
"""What comes before the first one."""


def sign_link(log_id: str, before: Signed, after: Signed, key: Ed25519PrivateKey) -> str:
    """Return what shows that `after` is the next checkpoint of the log after `before`."""
    return base64.b64encode(key.sign(_statement(log_id, before, after))).decode()


def is_link(link: str, before: Signed, after: Signed, verifier: VerifierKey) -> bool:
    """Say whether `link` shows that `after` is the next one after `before`."""
    public = Ed25519PublicKey.from_public_bytes(verifier.public)
    try:
        public.verify(
            base64.b64decode(link, validate=True), _statement(verifier.name, before, after)
        )
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _statement(log_id: str, before: Signed, after: Signed) -> bytes:
    lines = ["douane checkpoint link", log_id]
    for one in (before, after):
        lines += [str(one.size), hashlib.sha256(one.note.encode()).hexdigest()]
    return "\n".join(lines).encode()
