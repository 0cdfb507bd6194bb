"""The record that says which records have left the log, and what they were."""

from collections.abc import Mapping
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.record import COLUMNS
from gateway.domain._value import value
from gateway.storage.connection import Readable

CODE = "log_pruned"

_KIND = COLUMNS.index("kind")
_CODE = COLUMNS.index("code")


@value
class Removal:
    """That all records before `stop` may be gone, and the root over them."""

    first: int
    """The first that it removes: those before are gone already."""
    stop: int
    root: bytes

    def members(self, log_id: str, key: Ed25519PrivateKey) -> Mapping[str, Any]:
        """Return it as a record's evidence, signed by the log's key.

        A record alone says nothing: whoever can write the file can add one, and the next checkpoint
        would cover it.
        """
        signature = key.sign(self._statement(log_id))
        return {
            "from": self.first,
            "to": self.stop,
            "root": self.root.hex(),
            "signature": signature.hex(),  # in base64 one of forty looks like a secret, which none keeps
        }

    def is_signed(self, signature: str, verifier: VerifierKey) -> bool:
        """Tell whether the log's key signed this removal from it."""
        public = Ed25519PublicKey.from_public_bytes(verifier.public)
        try:
            public.verify(bytes.fromhex(signature), self._statement(verifier.name))
        except (InvalidSignature, TypeError, ValueError):
            return False
        return True

    def _statement(self, log_id: str) -> bytes:
        lines = ["douane log removal", log_id, str(self.first), str(self.stop), self.root.hex()]
        return "\n".join(lines).encode()


def removal_in(columns: tuple[Any, ...], body: bytes, verifier: VerifierKey) -> Removal | None:
    """Return what a record says of a removal; `None` if it is of something else, or not signed."""
    if columns[_KIND] != "system" or columns[_CODE] != CODE:
        return None
    try:
        evidence = orjson.loads(body)["evidence"]
        first, stop = int(evidence["from"]), int(evidence["to"])
        found = Removal(first=first, stop=stop, root=bytes.fromhex(evidence["root"]))
        return found if found.is_signed(evidence["signature"], verifier) else None
    except (KeyError, TypeError, ValueError):
        return None


def removed_in(connection: Readable, verifier: VerifierKey) -> int:
    """Return before which record all may be gone, by the newest signed removal; 0 without one."""
    rows = connection.execute(
        f"SELECT CAST(body AS BLOB), {', '.join(COLUMNS)} FROM audit"  # noqa: S608 - fixed
        " WHERE code = ? ORDER BY leaf_index DESC",
        (CODE,),
    )
    found = (removal_in(tuple(columns), body, verifier) for body, *columns in rows)
    return next((one.stop for one in found if one), 0)
