"""A small signed log in memory, and exports of it."""

from collections.abc import Collection

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.bundle import BundleWriter
from gateway.audit.checkpoint import VerifierKey, sign_checkpoint
from gateway.audit.merkle import CompactRange, leaf_hash

LOG_ID = "douane/0123456789abcdef"


class SignedLog:
    """Records without meaning, under a key of its own."""

    def __init__(self, size: int, *, seed: int = 1, log_id: str = LOG_ID) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.verifier = VerifierKey.of(log_id, self.key)
        self.bodies = [
            orjson.dumps({"log_id": log_id, "id": f"{index:04d}", "code": "d\u00e9ni\u2028"})
            for index in range(size)
        ]
        self.leaves = [leaf_hash(body) for body in self.bodies]

    def note(self, size: int) -> str:
        root = CompactRange().extend(self.leaves[:size]).root()
        return sign_checkpoint(self.verifier.name, size, root, self.key).note

    def root_of(self, part: range) -> bytes:
        return CompactRange().extend(self.leaves[part.start : part.stop]).root()

    def export(
        self, shown: Collection[int], *, size: int | None = None, heads: Collection[int] = ()
    ) -> list[bytes]:
        """Return the lines of an export of the first `size` records.

        There are further checkpoints behind the records of `heads`.
        """
        size = len(self.leaves) if size is None else size
        writer = BundleWriter(key=self.verifier, size=size, root_of=self.root_of)
        lines = [writer.begin()]
        for index in sorted({*shown, *heads}):
            if index in shown:
                lines += writer.record(index, self.bodies[index])
            if index in heads:
                lines += writer.checkpoint(index + 1, self.note(index + 1))
        lines += writer.checkpoint(size, self.note(size))
        return [line.encode() for line in lines]
