"""Whether an archived file is what was signed, and whether a log had it."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from gateway.audit.bundle import LONGEST_LINE_BYTES, BundleCheck, BundleVerification
from gateway.audit.checkpoint import BadCheckpoint, VerifierKey, open_checkpoint
from gateway.storage.connection import Readable, open_reader
from gateway.storage.tree import provable, tree_at


def segment_verified(
    path: Path, verifier: VerifierKey | None, log: Path | None = None
) -> BundleVerification:
    """Check a file of records by itself, and with `log` also against the log's own tree.

    Raises:
        OSError: It cannot be read.
        NotABundle: It is not of that form.

    """
    return segment_verified_in(path, verifier, None if log is None else partial(open_reader, log))


def segment_verified_in(
    path: Path, verifier: VerifierKey | None, opened: Callable[[], Readable] | None
) -> BundleVerification:
    """Do the same with the log, wherever it lies, that `opened` returns.

    Raises:
        OSError: It cannot be read.
        NotABundle: It is not of that form.

    """
    with path.open("rb") as file:
        found = BundleCheck(verifier).run(iter(partial(file.readline, LONGEST_LINE_BYTES), b""))
    if opened is None or not found.ok:
        return found
    with closing(opened()) as connection:
        last = connection.execute("SELECT max(leaf_index) FROM audit").fetchone()[0]
        if last is None or found.size > last + 1:
            return replace(found, ok=False, reason=f"the log has fewer than {found.size} records")
        root = _root_in(connection, found.size, verifier)
        if not root:
            return replace(found, ok=False, reason=f"the log cannot tell its first {found.size}")
        if root != found.root:
            return replace(found, ok=False, reason="the log has other records in their place")
    return found


def _root_in(connection: Readable, size: int, verifier: VerifierKey | None) -> str:
    """Return the log's root of that size; empty if nothing of it says that any more."""
    if provable(connection, size):
        return tree_at(connection, size).root().hex()
    row = connection.execute("SELECT note FROM checkpoints WHERE size = ?", (size,)).fetchone()
    if row is None or verifier is None:
        return ""
    try:
        head = open_checkpoint(row[0], verifier)
    except BadCheckpoint:
        return ""
    return head.root.hex() if head.size == size else ""
