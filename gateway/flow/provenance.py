"""What a run's results contained, so that a later call can be told where its values are from.

Remembering costs next to nothing; a result is read when a later call first asks.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeVar

from gateway.domain._value import value
from gateway.domain.flow import Match, Proof, Source
from gateway.domain.labels import Confidentiality, Effect, Integrity
from gateway.domain.nodes import MOST_NODES, amount
from gateway.flow.carried import Carried, Search
from gateway.flow.folding import folded
from gateway.flow.index import Index
from gateway.flow.listed import Listed
from gateway.flow.noted import Noted
from gateway.flow.overheard import Overheard, Remark, excusing, telling
from gateway.flow.payloads import SHORTEST_VALUE, Payloads
from gateway.flow.reading import Answered, Read
from gateway.flow.results import besides, said_in, texts_of
from gateway.flow.secrecy import MOST, carried_secrets, secrets_in
from gateway.flow.spoken import Spoken, Voices

Found = TypeVar("Found")
_MOST_SAID = 4096
"""Texts of arguments that are kept."""
_MOST_SAID_OCTETS = 1024 * 1024
"""Bytes of them, from which on no more are."""

_MOST_WEIGHT = 32 * 1024 * 1024
"""Bytes that all results of a run take, looked at or not."""
_UNREAD = 4
"""How many times its bytes a result takes that was not looked at: one wide sign makes all of a text wide."""
_NODE = 96
"""Bytes of a value or a name in it."""
_EACH = 2048

_ENTRY = 200
"""Bytes of a text that is kept, beside its letters."""

_MOST_SECRETS_OCTETS = 512 * 1024
"""Bytes of all secrets that are known by their values; one may be long."""
_SECRET = 424
"""Bytes of one, beside its letters."""

_MOST_WRITTEN = 256 * 1024
"""Bytes of letters that are kept of what was written."""


@value
class Known:
    """Why a value is known, and from what."""

    proof: Proof
    integrity: Integrity
    source: Source
    minted: bool = False
    """Whether its own server gives out such values, and no outsider chooses them."""
    clean: bool = False
    """Whether it did so in answer to a call that nobody outside can have led."""


def may_write(effect: Effect | None, *, clean: bool) -> bool:
    """Tell whether a call may write somewhere what others led it to.

    `clean`: whether its run had seen nothing untrusted by then.
    """
    return not clean and effect is not Effect.READ


class Provenance:
    """The latest results of one run, at most `results` of them and `octets` bytes together.

    So many bytes are of text; of numbers and short texts, which take more memory, it is fewer. The
    oldest are forgotten first, and one that is too large alone is not kept. A proof that is
    forgotten is no proof. A payload that is forgotten is no longer recognised, but the run's label
    still tells that it may be there.
    """

    def __init__(
        self,
        *,
        results: int = 128,
        octets: int = 640 * 1024,
        complete: bool = True,
        knows_secrets: bool = True,
        above: "Callable[[], Provenance | None]" = lambda: None,
        listed: Listed | None = None,
    ) -> None:
        """`complete`: whether this is told of the run from where it could first be led.

        `knows_secrets`: whether from where it could first see one. `above` returns the provenance of
        the run that sees all that this one sees, if there is one and it is remembered. `listed` is
        what lists have shown to that run and its parts.
        """
        self.knows_secrets = knows_secrets
        self.is_elsewhere_too = False
        """Whether another gateway remembers some of the run."""
        self._above = above
        self._secrets: dict[bytes, tuple[str, str]] = {}
        """Secrets that stood in results, each with a record and its server. None is forgotten, but all
        are where they are too many: then all that is carried may be one."""
        self._secrets_octets = 0
        """What they take, and what it is to go through them: each question does."""
        self._most_results = results
        self._most_octets = octets
        self._octets = 0
        self._weight = 0
        """How many bytes it takes to keep the results, and what was made of them."""
        self._unread = 0
        """How many bytes were not looked at."""
        self._unsearched = 0
        """How many of those that were are not searchable for a payload."""
        self._left: Counter[str] = Counter()
        """How many of them `Read` has not made what of."""
        self._waiting: deque[tuple[Answered, int, int, int, Confidentiality]] = deque()
        """With how much had been written by then, its serial, how many bytes it takes until it is read, and
        how confidential it is apart from its secrets."""
        self._read: deque[Read] = deque()
        self._places: Index[str, Read] = Index()
        """Values, and the results that have them."""
        self._said: dict[str, tuple[Source, int, int]] = {}
        """What calls carried while only the user can have chosen it, how much had come and how many
        items had been listed by then."""
        self._listed = Listed() if listed is None else listed
        self._said_octets = 0
        self._written = Carried(most=_MOST_WRITTEN)
        """What calls that may have been led write somewhere, and may read again."""
        if not complete:
            self._written.give_up()
        self.is_led = not complete
        """Whether a call that may have been led may have written something: any answer from then on may tell of it."""
        self._search = self._search_in_lists = Search()
        """Of the question that is being answered."""
        self._missed = False
        """Whether a result was too large to be kept: what it showed, nobody knows."""
        self._arrived = 0
        """How many results have come."""
        self._serial = 0
        """Of the last one that was read."""
        self._payloads = Payloads()
        self._voices = Voices()
        self.overheard = Overheard()
        """What servers said outside of what they answered."""
        self._noted: dict[Callable[[Read, str], Any], Noted[Read, Any]] = {}
        self._in_payloads = 0
        """The last serial whose texts a payload is searched for."""

    def unread(self, *, words: bool) -> int:
        """Return how many bytes the next question may go through beside its own.

        `words`: whether it asks what a user's words mean.
        """
        left = self._left
        told = max(left["people"], left["titles"], left["records"]) if words else 0
        looked = self._unread + self._listed.unread + self.overheard.unread
        return looked + self._unsearched + left["carried"] + told + self._secrets_octets

    def finish(self, *, words: bool) -> None:
        """Make what the next question would make, of `words` as in `unread`."""
        self._look()
        self._listed.look()
        self.overheard.look()
        if self._in_payloads < self._serial:
            self._make_searchable()
        for read in self._read:
            read.finish(words=words)

    @property
    def octets(self) -> int:
        """About how many bytes this takes, whatever shape its results have."""
        said = len(self._said) * _ENTRY + self._said_octets
        counted = self._listed.count and self._listed.is_counted_with(self)
        listed = self._listed.octets if counted else 0
        kept = self._weight + self._written.octets + self.overheard.weight + self._secrets_octets
        return kept + said + listed

    def give_up(self) -> None:
        """Know from now on that not all of the run is remembered here: another gateway has some of it.

        What a led call has written there may come back here, and what a result has shown there may be
        what a call here carries: where the run has seen what is private, all of it may be. What here is
        a secret, is one still.
        """
        self._written.give_up()
        self.is_led = True
        self._said.clear()
        self._said_octets = 0
        self._missed = True
        self._listed.give_up()
        self.knows_secrets = False
        self.is_elsewhere_too = True

    def sends(self, arguments: Mapping[str, Any], effect: Effect | None, *, clean: bool) -> None:
        """Note what a call carries before it is sent, whatever becomes of it.

        `clean`: whether the run had seen nothing untrusted by then.
        """
        if may_write(effect, clean=clean):
            self.is_led = True
            self._written.add(said_in(arguments))

    def wrote(self, text: str) -> bool:
        """Tell whether `text` may have been written somewhere by a call that was led."""
        return self._written.has(text)

    def lists(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Note that a list showed `items` of which nobody approved a word.

        It raises no label, and vouches for nothing: what a call carries afterwards may be from there.
        """
        self._listed.add(items)

    def hears(self, answered: Answered) -> None:
        """Note what a server said beside its answer to a call: a notice, or a question."""
        level = answered.source.label.confidentiality
        if level is Confidentiality.SECRET:
            level = self._without_secrets(answered)
        # It has no documents, whatever its members are called.
        self._overhear(answered, {"said": answered.content}, level, self._arrived)

    def _overhear(
        self, answered: Answered, content: Mapping[str, Any], level: Confidentiality, arrived: int
    ) -> None:
        if texts := telling(besides(content)):
            asked = excusing(texts_of(answered.arguments))
            source = answered.source
            self.overheard.add(
                Remark(source=source, level=level, texts=texts, asked=asked, arrived=arrived)
            )

    def remember(self, answered: Answered, *, led: bool = False) -> None:
        """Keep a result for what is asked later.

        `led`: whether a call may have written what it tells of while it was under way, and this was not told.
        """
        if answered.clean and not self._missed and self._listed.is_complete:
            self._note_said(answered)
        if answered.clean and (led or self.is_led):
            answered = replace(answered, clean=False)
        level = answered.source.label.confidentiality
        if level is Confidentiality.SECRET:
            level = self._without_secrets(answered)
        too_large = answered.octets > self._most_octets
        if too_large or (weight := _weight_of(answered)) > _MOST_WEIGHT:
            self._missed = True
            return
        self._arrived += 1
        self._octets += answered.octets
        self._unread += answered.octets
        self._weight += weight
        self._waiting.append((answered, self._written.length, self._arrived, weight, level))
        self._forget_what_is_too_much()

    def _forget_what_is_too_much(self) -> None:
        while (
            self._octets > self._most_octets
            or self._weight > _MOST_WEIGHT
            or len(self._read) + len(self._waiting) > self._most_results
        ):
            self._forget_oldest()

    def _without_secrets(self, answered: Answered) -> Confidentiality:
        """Keep what only stands in a result that is secret, and return how confidential the rest of it is.

        Where its tool's results are secret, or not all of its secrets can be told by their values, all
        of it is.
        """
        secret, level = Confidentiality.SECRET, answered.level
        if level is None or level is secret:
            return secret
        secrets, whole = secrets_in(answered.content)
        self._hide(secrets, answered.source, whole=whole)
        return max(level, Confidentiality.PRIVATE) if secrets and whole else secret

    def _hide(self, secrets: frozenset[bytes], source: Source, *, whole: bool) -> None:
        for secret in secrets - self._secrets.keys():
            self._secrets[secret] = (source.record, source.server)
            self._secrets_octets += _SECRET + len(secret)
        too_many = len(self._secrets) > MOST or self._secrets_octets > _MOST_SECRETS_OCTETS
        if too_many or not whole:
            self.knows_secrets = False
            self._secrets.clear()
            self._secrets_octets = 0
        if (above := self._above()) is not None:
            above._hide(secrets, source, whole=whole)  # noqa: SLF001 - of its own kind

    def _note_said(self, answered: Answered) -> None:
        for text in texts_of(answered.said):
            if len(self._said) >= _MOST_SAID or self._said_octets >= _MOST_SAID_OCTETS:
                return
            if len(text) >= SHORTEST_VALUE and text not in self._said:
                self._said[text] = answered.source, self._arrived, self._listed.count
                self._said_octets += 4 * len(text)

    def _forget_oldest(self) -> None:
        if not self._read:
            answered, _, serial, weight, _ = self._waiting.popleft()
            self._octets -= answered.octets
            self._weight -= weight
            self._unread -= answered.octets
            self._forget_said(serial, self._said)
            return
        oldest = self._read.popleft()
        oldest.drop()
        if oldest.serial > self._in_payloads:
            self._unsearched -= oldest.octets
        self._forget_said(oldest.serial, oldest.values & self._said.keys())
        self._payloads.drop(oldest.serial)
        self._voices.drop(oldest.serial)
        for noted in self._noted.values():
            noted.drop(oldest.serial)
        self._octets -= oldest.octets
        self._weight -= oldest.weight
        self._places.drop(oldest, oldest.values)

    def _forget_said(self, serial: int, texts: Collection[str]) -> None:
        """Forget which of `texts` calls carried after the result `serial` may have shown them."""
        for text in [text for text in texts if self._said[text][1] >= serial]:
            del self._said[text]

    def begin(self) -> None:
        """Begin a question: all that is asked from here on shares one bound of what is searched.

        What lists have shown has one of its own, for it only takes a proof away.
        """
        self._search = Search()
        self._search_in_lists = Search()

    def proof_of(self, text: str, server: str) -> Known | None:
        """Return how an earlier result or call proves `text` to be known to a tool of `server`.

        Only equality with a whole value counts, or with an address that a trusted result mentions.
        Trusted sources go before untrusted ones, then fields declared to hold identifiers before
        others, then the newest. Of an untrusted result a field that is named as an identifier is
        one for its own server only.
        """
        plain = minted = typed = None
        clean = False
        for read in self._with(text):
            own = text in read.ids and read.source.server == server
            is_typed = text in read.typed
            tells = own or is_typed or (plain is None and read.vouches)
            # What one more result shows as well is not worth a search.
            if not tells or read.carried.has(text, search=self._search):
                continue
            if read.vouches and not self._written.has(text, read.written, self._search):
                if is_typed:
                    return Known(proof=Proof.TYPED, integrity=Integrity.TRUSTED, source=read.source)
                if own or len(text) >= SHORTEST_VALUE:
                    plain = plain or read.source
            if own:
                minted = minted or read.source
                clean = clean or read.clean
            elif is_typed:
                typed = typed or read.source
        said = plain or self._said_first(text)
        if said is not None:
            proof = Proof.TRUSTED_RESULT if plain is not None else Proof.TASK
            return Known(proof=proof, integrity=Integrity.TRUSTED, source=said)
        weak = minted or typed
        if weak is None:
            return None
        untrusted, own = Integrity.UNTRUSTED, minted is not None
        return Known(proof=Proof.TYPED, integrity=untrusted, source=weak, minted=own, clean=clean)

    def _said_first(self, text: str) -> Source | None:
        """Return the clean call that carried `text`, unless a result or a list had shown it by then.

        What these had shown, whoever called may have looked up: that is no word of the user's.
        """
        if text not in self._said:
            return None
        source, arrived, listed = self._said[text]
        shown = any(read.serial <= arrived for read in self._places.having(text))
        shown = shown or self.overheard.showed(text, arrived)
        return None if shown or self._listed.had(text, listed, self._search_in_lists) else source

    def seen(self, text: str) -> Source | None:
        """Return the newest result that has `text` as a value or an address, but did not ask it."""
        shown = (r for r in self._with(text) if not r.carried.has(text, search=self._search))
        return next((read.source for read in shown), None)

    def titles_of(self, text: str, server: str) -> Iterator[str]:
        """Yield what `server` calls the records that bear its id `text`, newest result first."""
        for read in self._with(text):
            if read.source.server == server:
                yield from read.titles.get(text, ())

    def gave(self, text: str) -> bool:
        """Tell whether some server gave out `text` as a name of its own, and was not asked with it."""
        shown = (read for read in self._with(text) if text in read.ids)
        return any(not read.carried.has(text, search=self._search) for read in shown)

    def spoken_by(self, text: str, nouns: Collection[str] = ()) -> Iterator[tuple[str, ...]]:
        """Yield what was asked for the untrusted results whose running text names `text`."""
        self._look()
        named = self._voices.naming(text, nouns)
        for read in self._read if named else ():
            if read.serial in named:
                yield read.asked

    def secrets_in(
        self, texts: Collection[str], server: str = "", known: str = ""
    ) -> tuple[str, ...]:
        """Return the records of secrets that stand in `texts`, and that `server` did not give out.

        What stands in `known`, the user's own prompt, is no secret from them.
        """
        told = folded(known) if self._secrets else b""
        hidden = {
            secret: record
            for secret, (record, its) in tuple(self._secrets.items())
            if its != server and secret not in told
        }
        return tuple(dict.fromkeys(carried_secrets(texts, hidden))) if hidden else ()

    def noted(self, look: Callable[[Read, str], Found | None], words: str) -> Noted[Read, Found]:
        """Return what `look` finds for `words` in each result that was read.

        It is one of a few functions, and what it finds in a result for the same words is the same.
        """
        self._look()
        noted = self._noted.get(look)
        if noted is None:
            noted = self._noted[look] = Noted(look)
        noted.hear(words, reversed(self._read))
        return noted

    def matches(self, text: str, known: str = "", home: str = "") -> tuple[Match, ...]:
        """Return what of earlier results is in `text`, as `Payloads.matches` does.

        `text` goes to the server `home` itself, if there is one: what that said beside its answers
        it was to be told again.
        """
        self._look()
        if self._in_payloads < self._serial:
            self._make_searchable()
        found = self._payloads.matches(text, known)
        if not self.overheard.weight:
            return found
        return (*found, *self.overheard.matches(text, known, home))

    def asked_beside(
        self, text: str, nouns: Collection[str], home: str
    ) -> Iterator[tuple[str, ...]]:
        """Return what was asked when untrusted servers named `text` beside their answers, `home` aside."""
        self._look()
        return self.overheard.naming(text, nouns, home) if self.overheard.weight else iter(())

    def _make_searchable(self) -> None:
        newest_first = takewhile(lambda read: read.serial > self._in_payloads, reversed(self._read))
        for read in reversed(list(newest_first)):
            record = read.source.record
            self._payloads.add(read.serial, record, read.texts, read.asked, read.level)
        self._in_payloads = self._serial
        self._unsearched = 0

    def _with(self, text: str) -> Iterator[Read]:
        self._look()
        return reversed(self._places.having(text))

    def _look(self) -> None:
        while self._waiting:
            answered, written, serial, weight, level = self._waiting.popleft()
            read = Read(answered, written, serial, level, self._left)
            self._serial = read.serial
            self._unread -= read.octets
            self._unsearched += read.octets
            self._read.append(read)
            if not read.trusted:
                self._voices.add(read.serial, Spoken(read.texts))
            self._places.add(read, read.values)
            self._overhear(answered, answered.content, level, serial)
            self._weight += read.weight - weight
            self._missed |= read.weight > _MOST_WEIGHT
            self._forget_what_is_too_much()


def _weight_of(answered: Answered) -> int:
    """Return how many bytes a result takes that nobody looked at, whatever shape it has."""
    nodes = amount([answered.content, answered.arguments], 2 * MOST_NODES)
    return _UNREAD * answered.octets + _NODE * nodes + _EACH
