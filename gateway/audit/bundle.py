"""Records that prove themselves: the form in which they leave the log, written and checked."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gateway.audit.checkpoint import BadCheckpoint, VerifierKey, open_checkpoint
from gateway.audit.cosignature import Sightings, Witnessed, WitnessKey
from gateway.audit.merkle import HASH_BYTES, CompactRange, leaf_hash
from gateway.domain._value import value
from gateway.domain.audit import TreeHead

FORMAT = "douane-log/1"

LONGEST_LINE_BYTES = 1024 * 1024
"""More than the largest record needs, with each of its characters escaped."""

_LARGEST_LOG = 1 << 62

_HEADER = {"format", "log_id", "key", "size", "selection"}
_RECORD = {"leaf_index", "leaf_hash", "body"}
_LEFT_OUT = {"leaf_index", "left_out", "root"}
_CHECKPOINT = {"checkpoint"}


class NotABundle(ValueError):
    """What was given does not begin as an export of this form does."""


class BundleWriter:
    """Writes lines whose every leaf is either a record or under a root that stands for it.

    What is left out, before, between and after the records, is there as the roots of the largest
    perfect subtrees. So whoever reads the file can compute the root that the checkpoint signs.
    """

    def __init__(
        self,
        *,
        key: VerifierKey,
        size: int,
        root_of: Callable[[range], bytes],
        selection: Mapping[str, str] | None = None,
    ) -> None:
        """Write of the first `size` records of the log of `key`, of which a checkpoint is at hand.

        `root_of` is asked for the roots of perfect subtrees; `selection` says in the operator's
        words what was asked for, and proves nothing.
        """
        self._key = key
        self._size = size
        self._root_of = root_of
        self._selection = dict(selection or {})
        self._next = 0

    def begin(self) -> str:
        """Return the first line."""
        return _line(
            {
                "format": FORMAT,
                "log_id": self._key.name,
                "key": str(self._key),
                "size": self._size,
                "selection": self._selection,
            }
        )

    def record(self, leaf_index: int, body: bytes) -> Iterator[str]:
        """Yield the lines up to this record, and its own.

        Raises:
            ValueError: It does not come after what is written, or is not among the first `size`.

        """
        if not self._next <= leaf_index < self._size:
            raise ValueError(f"record {leaf_index} has no place here")
        yield from self._skip_to(leaf_index)
        self._next = leaf_index + 1
        leaf = leaf_hash(body).hex()
        yield _line({"leaf_index": leaf_index, "leaf_hash": leaf, "body": body.decode()})

    def checkpoint(self, size: int, note: str) -> Iterator[str]:
        """Yield the lines up to the first `size` records, and the checkpoint of these.

        The last one has to be that of the size that the header names.

        Raises:
            ValueError: There are more records already, or fewer in all.

        """
        if not self._next <= size <= self._size:
            raise ValueError(f"a checkpoint of {size} has no place here")
        yield from self._skip_to(size)
        yield _line({"checkpoint": note})

    def _skip_to(self, leaf_index: int) -> Iterator[str]:
        for part in perfect_parts(self._next, leaf_index):
            root = self._root_of(part).hex()
            yield _line({"leaf_index": part.start, "left_out": len(part), "root": root})
        self._next = leaf_index


def bundle_lines(
    writer: BundleWriter, records: Iterable[tuple[int, bytes]], head: tuple[int, str]
) -> Iterator[str]:
    """Yield a whole export of `records`, by leaf index, under the checkpoint `head`: size, note."""
    yield writer.begin()
    for leaf_index, body in records:
        yield from writer.record(leaf_index, body)
    yield from writer.checkpoint(*head)


def perfect_parts(start: int, stop: int) -> Iterator[range]:
    """Yield the largest perfect subtrees, left to right, that the leaves up to `stop` are under.

    Each has a power of two of leaves and begins at a multiple of it.
    """
    while start < stop:
        largest = start & -start or 1 << (stop - start).bit_length()
        while largest > stop - start:
            largest >>= 1
        yield range(start, start + largest)
        start += largest


@value
class BundleVerification:
    """What an export proves."""

    ok: bool
    reason: str = ""
    """Why it is not `ok`."""
    line: int | None = None
    """The line, from 1, at which that was seen."""
    key: str = ""
    """By whom the checkpoints are signed."""
    size: int = 0
    """How many records the newest checkpoint covers: those shown and those left out."""
    root: str = ""
    records: int = 0
    """How many are shown."""
    first: int | None = None
    last: int | None = None
    gaps: int = 0
    """How many records between the first and the last are left out."""
    checkpoints: int = 0
    """How many were compared: those in the file, and those that were given."""
    witnessed: tuple[Witnessed, ...] = ()
    """The newest checkpoint among them that each given witness has cosigned."""


class _Bad(Exception):
    """Ends the check."""


class BundleCheck:
    """Checks an export, a line at a time, with no more memory than the tree's right edge."""

    def __init__(
        self,
        verifier: VerifierKey | None = None,
        kept: Sequence[tuple[str, str]] = (),
        witnesses: Sequence[WitnessKey] = (),
    ) -> None:
        """Trust `verifier`, or else the key that the export names, whosever that is.

        `kept` are checkpoints from elsewhere, as pairs of a name and a note: each has to be met.
        Each of `witnesses` has to have cosigned one of those, or one in the file.
        """
        self._sightings = Sightings(witnesses)
        self._trusted = verifier
        self._notes = kept
        self._verifier: VerifierKey | None = None
        self._size = 0
        self._tree = CompactRange()
        self._waiting: list[tuple[str, TreeHead]] = []
        self._signed = -1
        self._records = self._compared = 0
        self._first: int | None = None
        self._last: int | None = None

    def run(self, lines: Iterable[bytes]) -> BundleVerification:
        """Check all of the lines, each with its line break.

        Raises:
            NotABundle: The first is not the first of an export.

        """
        number = 0
        try:
            for number, line in enumerate(lines, 1):
                if number == 1:
                    self._begin(_header(line))
                else:
                    self._take(_members(line))
            if not number:
                raise NotABundle("there is nothing in it")
            self._end()
        except _Bad as bad:
            return self._found(str(bad), number)
        return self._found("", None)

    def _found(self, reason: str, line: int | None) -> BundleVerification:
        first, last = self._first, self._last
        between = 0 if first is None or last is None else last - first + 1 - self._records
        return BundleVerification(
            ok=not reason,
            reason=reason,
            line=line,
            key=str(self._verifier or ""),
            size=self._tree.size,
            root=self._tree.root().hex(),
            records=self._records,
            first=first,
            last=last,
            gaps=between,
            checkpoints=self._compared,
            witnessed=self._sightings.found,
        )

    def _begin(self, header: Mapping[str, Any]) -> None:
        try:
            named = VerifierKey.parse(header["key"])
        except (BadCheckpoint, UnicodeEncodeError) as error:
            raise NotABundle(f"its header: {error}") from error
        self._verifier = self._trusted or named
        if named != self._verifier or named.name != header["log_id"]:
            raise _Bad(f"the export is of {named}, not of {self._verifier}")
        self._size = header["size"]
        for origin, note in self._notes:
            head = self._open(note, origin)
            if head.size > self._size:
                raise _Bad(f"{origin}: {head.size} records were signed, here are {self._size}")
            self._waiting.append((origin, head))
        self._waiting.sort(key=lambda kept: -kept[1].size)
        self._compare_kept()

    def _take(self, members: Mapping[str, Any]) -> None:
        if members.keys() == _CHECKPOINT:
            self._compare(self._open(_text(members["checkpoint"]), "the checkpoint"))
            return
        index = _number(members.get("leaf_index"))
        if index != self._tree.size:
            raise _Bad(f"record {index} stands where {self._tree.size} belongs")
        if members.keys() == _RECORD:
            self._grow(self._leaf(index, members), 0)
        elif members.keys() == _LEFT_OUT:
            count = _number(members["left_out"])
            if count < 1 or count & (count - 1) or index % count:
                raise _Bad(f"{count} records from {index} on are no subtree")
            self._grow(_hash(members["root"]), count.bit_length() - 1)
        else:
            raise _Bad("no line of an export")

    def _leaf(self, index: int, members: Mapping[str, Any]) -> bytes:
        leaf = leaf_hash(_utf8(_text(members["body"])))
        if leaf != _hash(members["leaf_hash"]):
            raise _Bad(f"record {index} was changed")
        self._records += 1
        self._first = index if self._first is None else self._first
        self._last = index
        return leaf

    def _grow(self, root: bytes, height: int) -> None:
        self._tree = self._tree.extend((root,), height=height)
        self._compare_kept()

    def _compare_kept(self) -> None:
        """Compare what was kept elsewhere, and could stand here."""
        while self._waiting and self._waiting[-1][1].size <= self._tree.size:
            origin, head = self._waiting.pop()
            if head.size < self._tree.size:
                raise _Bad(f"{origin}: the records around {head.size} are left out here")
            if head.root != self._tree.root():
                raise _Bad(f"{origin}: the first {head.size} records are others")
            self._met(head, origin)

    def _open(self, note: str, origin: str) -> TreeHead:
        if self._verifier is None:
            raise _Bad("the header is missing")
        try:
            return open_checkpoint(note, self._verifier)
        except (BadCheckpoint, UnicodeEncodeError) as error:
            raise _Bad(f"{origin}: {error}") from error

    def _compare(self, head: TreeHead) -> None:
        if head.size != self._tree.size:
            raise _Bad(f"a checkpoint of {head.size} stands behind {self._tree.size} records")
        if head.root != self._tree.root():
            after = max(self._signed, 0)
            raise _Bad(f"one of the records {after} to {head.size - 1} was changed or moved")
        self._signed = head.size
        self._met(head, "the checkpoint")

    def _met(self, head: TreeHead, origin: str) -> None:
        self._compared += 1
        try:
            self._sightings.take(head)
        except BadCheckpoint as error:
            raise _Bad(f"{origin}: {error}") from error

    def _end(self) -> None:
        if self._tree.size != self._size:
            raise _Bad(f"the export ends after {self._tree.size} of {self._size} records")
        if self._signed != self._size:
            raise _Bad(f"the checkpoint of {self._size} records is missing")
        if self._sightings.missing:
            raise _Bad(self._sightings.missing)


def _header(line: bytes) -> Mapping[str, Any]:
    try:
        members = _members(line)
        if members.get("format") != FORMAT:
            raise NotABundle(f"not an export of the form {FORMAT}")
        if members.keys() != _HEADER or not isinstance(members["selection"], dict):
            raise NotABundle("its header has other members")
        _text(members["key"]), _text(members["log_id"]), _number(members["size"])
    except _Bad as bad:
        raise NotABundle(f"its first line is no header: {bad}") from bad
    return members


def _members(line: bytes) -> Mapping[str, Any]:
    if not line.endswith(b"\n"):
        raise _Bad("the line is cut off, or too long")
    try:
        members = json.loads(line.decode(), object_pairs_hook=_unambiguous)
    except (ValueError, RecursionError) as error:
        raise _Bad("not a line of JSON") from error
    if not isinstance(members, dict):
        raise _Bad("not a JSON object")
    return members


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands there twice")
    return members


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise _Bad("a text was expected")
    return content


def _number(content: Any) -> int:
    if type(content) is not int or not 0 <= content < _LARGEST_LOG:
        raise _Bad("a number from 0 on was expected")
    return content


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _Bad("a text that UTF-8 cannot say") from error


def _hash(content: Any) -> bytes:
    try:
        found = bytes.fromhex(_text(content))
    except ValueError as error:
        raise _Bad("a hash in hex was expected") from error
    if len(found) != HASH_BYTES or found.hex() != content:
        raise _Bad("a hash in hex was expected")
    return found


def _line(members: Mapping[str, Any]) -> str:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False) + "\n"
