"""What calls carried, so that it is known again when it comes back: an echo vouches for nothing."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from itertools import takewhile

from gateway.domain._value import value
from gateway.domain.bounded import digest_of, remembered
from gateway.flow.folding import BOUNDARY, folded, revealed, words
from gateway.flow.spellings import Reader, TooMuch, unescaped

_SHORTEST_PART = 4
"""Letters. What has fewer is in many texts by chance, and counts only as a whole one."""
_LONG = 512
"""Letters of a value beyond which it is taken apart only where a piece may end."""

_MOST_SEARCHED = 32 * 1024 * 1024
"""Bytes that are gone through for all the texts of one question: some ten milliseconds."""
_STEP = 256
"""Bytes that take as long as looking for a piece."""

_FEW_LETTERS = 100
_FEW_BYTES = 30_000
_VERY_FEW_BYTES = 2_500
"""Below these `bytes.find` begins anew at each byte, and compares the same letters again and again."""
_LITTLE = 16 * 1024
"""Comparisons that are no work, if all of them are made."""
_USUAL = 3
"""Comparisons for each byte of which letters that do not repeat themselves need no more."""

_MOST_KEPT = 4096
_MOST_KEPT_OCTETS = 4 * 1024 * 1024
_ENTRY = 200
"""Bytes of a spelling beside its letters."""

_MOST_CALLS = 16 * 1024
_OF_A_CALL = 400
_OF_A_PIECE = 125
"""Bytes beside the letters."""

_END = BOUNDARY.encode()


@value
class _Spelled:
    letters: bytes
    words: bytes
    is_core: bool = False
    """Whether it is what a server may have written more around: by its letters, or else by its words."""


_BEFORE_HOST = re.compile(r"(?:https?://|mailto:)?(?:www\.)?", re.IGNORECASE)
_PHONE = re.compile(r"[0-9 ()./+-]{8,24}")
_LOCAL = 7
"""Digits of a phone number that nobody leaves out."""
_PHONE_DIGITS = range(_LOCAL + 1, 16)
"""Of a phone number (ITU-T E.164)."""
_PLAIN_DIGITS = range(11, 16)
"""Of one that has neither a sign nor anything between them: fewer are a number of something."""
_SCIENTIFIC = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?[Ee]\+?[0-2]?[0-9]")
_BASED = re.compile(r"0[xX][0-9a-fA-F]{1,16}|0[oO][0-7]{1,22}|0[bB][01]{1,64}")
_PART = r"(?:0[xX][0-9a-fA-F]++|[0-9]++)"
_NUMERIC_HOST = re.compile(
    rf"(?:^|(?<=[/\\@:]))(?:{_PART}(?:\.{_PART}){{0,3}}(?=\.?(?:[^\w.]|$))|\[[0-9a-fA-F:.]{{2,45}}\])"
)

_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,3})(?:\.(?:0|[1-9][0-9]{0,3})){1,2}")
"""Numbers of which a host is made only by whoever expects one: they count something, or are a date."""


def _cores(text: str) -> Iterator[_Spelled]:
    """Yield what `text` was before its server wrote it in a form of its own, as far as that shows.

    `evil.example` is `https://evil.example/` then, and `(415) 555-2671` is `+14155552671`.
    """
    text = revealed(text)
    if _PHONE.fullmatch(text):
        digits = "".join(filter(str.isdecimal, text))
        if len(digits) in (_PLAIN_DIGITS if digits == text else _PHONE_DIGITS):
            yield _Spelled(letters=digits[-_LOCAL:].encode(), words=b"", is_core=True)
    elif (before := _BEFORE_HOST.match(text)) and before.end():
        core = words(text[before.end() :].rstrip("/"))
        yield _Spelled(letters=b"", words=_END + core + _END, is_core=True)
    for full in _in_full(text):
        yield _Spelled(letters=folded(full), words=b"", is_core=True)


def _and_in_full(texts: Iterable[str]) -> Iterator[str]:
    """Yield `texts`, and numbers and hosts among them in full besides."""
    for text in texts:
        yield text
        yield from _in_full(text)


def _in_full(text: str) -> Iterator[str]:
    """Yield a number without its exponent or its base, and hosts in numbers, as servers write them that read some."""
    shown = revealed(text)
    for plain in dict.fromkeys((shown, unescaped(shown))):
        if _SCIENTIFIC.fullmatch(plain):
            yield format(Decimal(plain), "f")
            yield str(int(float(plain)))
        elif _BASED.fullmatch(plain):
            yield str(int(plain, 0))
        if (hosts := _NUMERIC_HOST.sub(_host, plain)) != plain:
            yield hosts


def _host(found: re.Match[str]) -> str:
    """Return a host in numbers as browsers write it (WHATWG URL, host parsing); what is none, as it stands."""
    host = found[0]
    if not found.start() and _VERSION.fullmatch(host):
        return host
    try:
        if host[0] == "[":
            return f"[{IPv6Address(host[1:-1])}]"
        *front, last = (
            int(part, 16 if part[:2] in ("0x", "0X") else 8 if part[0] == "0" else 10)
            for part in host.split(".")
        )
        address = str(IPv4Address(bytes(front) + last.to_bytes(4 - len(front), "big")))
    except (ValueError, OverflowError):
        return host
    return host if address.startswith("0.") else address  # of nobody: it is a small number


class Search:
    """What one question may look for: every text is read once, and all of them take bounded time."""

    def __init__(self, most: int = _MOST_SEARCHED) -> None:
        self._left = most
        self._reader = Reader()
        self._read: dict[str, tuple[_Spelled, ...]] = {}
        self._repeats: dict[bytes, int] = {}

    @property
    def is_over(self) -> bool:
        """Whether it has taken too long, so that what is found is no answer."""
        return self._left < 0

    def spelled(self, text: str) -> tuple[_Spelled, ...]:
        """Return the spellings of `text`, to be compared.

        Raises:
            TooMuch: The question has taken too long.

        """
        found = self._read.get(text)
        if found is None:
            short = len(text) <= _LONG
            found = _spelled_before(text) if short else _all_spelled(self._reader, text)
            self._read[text] = found
        return found

    def takes(self, work: int) -> None:
        """Count what goes through `work` bytes.

        Raises:
            TooMuch: As `spelled`.

        """
        self._left -= work
        if self._left < 0:
            raise TooMuch("too much to be searched")

    def looks_for(self, letters: bytes, within: int) -> None:
        """Count what looks for `letters` within so many bytes.

        Raises:
            TooMuch: As `spelled`.

        """
        many = len(letters)
        if many > within:
            return self.takes(_STEP)
        few = within < _FEW_BYTES and many < _FEW_LETTERS
        begins_anew = few or within < _VERY_FEW_BYTES
        if begins_anew and many * within > _LITTLE:
            within *= max(1, self._compared(letters) - _USUAL)
        return self.takes(within)

    def _compared(self, letters: bytes) -> int:
        """Return how many of `letters` are compared at most for each byte."""
        if letters not in self._repeats:
            self.takes(_STEP * min(len(letters), _LONG))
            self._repeats[letters] = _repeats(letters)
        return self._repeats[letters]


def _repeats(letters: bytes) -> int:
    """Return how many of `letters` are compared at most for each byte of a text, beginning anew there.

    What begins anew after as many of them as one beginning repeats itself stands at most that often in
    any text: of `aaa` all are compared at each byte, of `abc` one, and each next one more rarely.
    """
    borders, most = [0], 1.0
    for at in range(1, min(len(letters), _LONG)):
        border = borders[-1]
        while border and letters[border] != letters[at]:
            border = borders[border - 1]
        borders.append(border + (letters[border] == letters[at]))
        most += 1 / (at + 1 - borders[at])
    # What is longer stands nowhere but where its beginning does.
    most += (len(letters) - len(borders)) / (len(borders) - borders[-1])
    return int(most)


def _spelled(reader: Reader, text: str) -> Iterable[_Spelled]:
    for one in reader.spellings(text.replace(BOUNDARY, " ")):
        yield _Spelled(letters=folded(one), words=words(one))


def _name(text: str) -> bytes:
    return digest_of(text)


def _weight(spelled: tuple[_Spelled, ...]) -> int:
    return sum(_ENTRY + len(one.letters) + len(one.words) for one in spelled)


@remembered(most=_MOST_KEPT, octets=_MOST_KEPT_OCTETS, key=_name, weigh=_weight)
def _spelled_before(text: str) -> tuple[_Spelled, ...]:
    """Return the spellings of a short text: a run asks for the same recipient again and again."""
    return _all_spelled(Reader(), text)


def _all_spelled(reader: Reader, text: str) -> tuple[_Spelled, ...]:
    return (*_spelled(reader, text), *_cores(text))


@value
class _Call:
    """Where that stands which one call carried."""

    begin: int
    end: int
    words_begin: int
    words_end: int
    pieces: frozenset[bytes]
    """The whole texts that it carried, by their letters."""


class Carried:
    """Texts by their letters and digits, in each of their spellings.

    So neither case, look, what stands between nor an encoding hides them; nor does it that one call
    carried a value in parts, which whoever got them put together.
    """

    def __init__(
        self, texts: Iterable[str] = (), *, most: int | None = None, joins: bool = True
    ) -> None:
        """Beyond `most` bytes together everything counts as carried.

        `joins`: whether short texts of one call are put together as well, which takes time for each.
        """
        self._joins = joins
        self._letters = _END
        self._words = _END
        self._calls: list[_Call] = []
        self._pieces: dict[bytes, int] = {}
        """The whole texts of all calls together, and at what length each was carried first."""
        self._lengths: set[int] = set()
        """Of these."""
        self._in_calls = 0
        """How many whole texts they have, each counted by itself."""
        self._most = most
        self.length = len(self._letters)
        """How much was carried by now; with it `has` tells what was carried before."""
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        """Note what one more call carries; of a text that is too long to be read, it may be all."""
        reader, length = Reader(), self.length
        letters: list[bytes] = []
        apart: list[bytes] = []
        try:
            for text in _and_in_full(dict.fromkeys(texts)):
                for one in _spelled(reader, text):
                    length += len(one.letters) + len(_END)
                    self._require_room(length)
                    letters += (one.letters, _END)
                    apart += (one.words, _END)
        except TooMuch:
            # Of what was carried before this, it is known as well as it was.
            if not self._overflows(self.length):
                self._most = self.length
            self.length += 1
            return
        if letters:
            self._keep(b"".join(letters), b"".join(apart))

    @property
    def octets(self) -> int:
        """How many bytes this takes at most."""
        many = self._in_calls + len(self._pieces)
        return 3 * self.length + _OF_A_CALL * len(self._calls) + _OF_A_PIECE * many

    def _keep(self, letters: bytes, apart: bytes) -> None:
        begin, words_begin = len(self._letters) - 1, len(self._words) - 1
        self.length += len(letters)
        self._letters += letters
        self._words += apart
        pieces = frozenset(filter(None, letters.split(_END)))
        self._in_calls += len(pieces)
        for piece in pieces:
            if len(piece) > 1 and not piece.isdigit():  # those that every call has tell nothing
                self._pieces.setdefault(piece, len(self._letters))
                self._lengths.add(len(piece))
        self._calls.append(
            _Call(
                begin=begin,
                end=len(self._letters),
                words_begin=words_begin,
                words_end=len(self._words),
                pieces=pieces,
            )
        )

    def give_up(self) -> None:
        """Take everything for carried from now on."""
        self._most = -1

    def has(self, text: str, before: int | None = None, search: Search | None = None) -> bool:
        """Tell whether `text` may be from what was carried, or from what was so at length `before`.

        It may be if a spelling of it stands there, forwards or backwards, if all the parts of one
        do in what a single call carried, or if it is made of whole texts that several carried; and
        if telling would take `search` too long.
        """
        length = self.length if before is None else before
        if self._overflows(length):
            return True
        if not self._calls:
            return False
        search = search or Search()
        try:
            return any(
                self._has_core(one, length, search)
                if one.is_core
                else self._stands(one, length, search)
                for one in search.spelled(text)
            )
        except TooMuch:
            return True

    def _stands(self, text: _Spelled, length: int, search: Search) -> bool:
        letters, backwards = text.letters, text.letters[::-1]
        search.takes(_STEP)
        search.looks_for(letters, length)
        search.looks_for(backwards, length)
        if len(letters) < _SHORTEST_PART:
            return self._letters.find(_END + letters + _END, 0, length) >= 0
        if self._letters.find(letters, 0, length) >= 0:
            return True
        if self._letters.find(backwards, 0, length) >= 0:
            return True
        parts = list(filter(None, text.words.split(_END)))
        return any(
            self._has_words(parts, call, search)
            or (self._joins and self._has_pieces_of(call, letters, search))
            for call in takewhile(lambda call: call.end <= length, self._calls)
        ) or _has_pieces(
            letters, self._lengths, lambda one: self._pieces.get(one, length + 1) <= length, search
        )

    @staticmethod
    def _has_pieces_of(call: _Call, letters: bytes, search: Search) -> bool:
        lengths: Collection[int] = ()
        if len(letters) > _LONG:
            search.takes(_STEP * len(call.pieces))
            lengths = {len(one) for one in call.pieces}
        return _has_pieces(letters, lengths, call.pieces.__contains__, search)

    def _has_core(self, core: _Spelled, length: int, search: Search) -> bool:
        """Tell whether the letters of a value's core stand there, or its words beside each other."""
        if core.letters:
            search.looks_for(core.letters, length)
            return self._letters.find(core.letters, 0, length) >= 0
        for call in takewhile(lambda call: call.end <= length, self._calls):
            search.looks_for(core.words, call.words_end - call.words_begin)
            if self._words.find(core.words, call.words_begin, call.words_end) >= 0:
                return True
        return False

    def _has_words(self, parts: list[bytes], call: _Call, search: Search) -> bool:
        """Tell whether `call` carried every word of a text, in whatever order."""
        for word in parts:
            whole, within = _END + word + _END, call.words_end - call.words_begin
            search.takes(_STEP)
            search.looks_for(whole, within)
            search.looks_for(word, within)
            if self._words.find(whole, call.words_begin, call.words_end) < 0 and (
                len(word) < _SHORTEST_PART or self._letters.find(word, call.begin, call.end) < 0
            ):
                return False
        return True

    def _require_room(self, length: int) -> None:
        if self._overflows(length) or len(self._calls) == _MOST_CALLS:
            raise TooMuch("more than is kept")

    def _overflows(self, length: int) -> bool:
        return self._most is not None and length > self._most


def _has_pieces(
    letters: bytes, lengths: Collection[int], is_piece: Callable[[bytes], bool], search: Search
) -> bool:
    """Tell whether `letters` are nothing but whole texts that were carried, put together.

    These have `lengths`, which are asked for where trying each would take too long.
    """
    past = len(letters)
    reached, waiting = {0}, [0]
    while waiting and past not in reached:
        begin = waiting.pop()
        left = past - begin
        tried = range(1, left + 1) if past <= _LONG else [n for n in lengths if n <= left]
        search.takes(_STEP * len(tried) + (sum(tried) if past > _LONG else 0))
        further = {begin + n for n in tried if is_piece(letters[begin : begin + n])} - reached
        reached |= further
        waiting += further
    return past in reached
