"""Whether the user's words ask for what a tool does.

It proves nothing by itself. It tells a call that the task is about from one that it is not: an
attacker can choose whom a call goes to, and cannot change what the user wrote before. What a tool does
is told by its own words, its name and the beginning of its description, and by its effect. English;
in other languages nothing is asked for, and what that costs is a question to a person.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from gateway.domain._value import value
from gateway.domain.bounded import digest_of, remembered
from gateway.domain.labels import Effect
from gateway.flow.asking import ALIKE, ASKING, AT_A_URL, IDIOMS
from gateway.flow.heard import heard
from gateway.flow.orders import SENTENCE, TELLS, ordered, plain
from gateway.flow.words import ASIDES, JOINING, LASTING, VERBS, VERBS_OR_NOUNS, singular, words_of

_WORD = re.compile(r"[a-z]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_TOKEN = re.compile(r"[^\W_]+(?:[.,][^\W_]+)*")
_LONGEST_DESCRIPTION = 400
_MOST_PROMPTS = 64
_MOST_TOOLS = 1024
_OCTETS = 4 * 1024**2
_SHORT_NAME = 64
_WORD_OCTETS = 100
"""Bytes that a word of a set takes beside its letters."""
_SHORTEST_STEM = 3
_ROOT = 5
"""Letters of a word that others are made of: "refer" of "referral", and not "send" of "sender"."""
_SAME = 7
"""Letters that two words begin with that are of one family: "prescribe" and "prescription"."""

_FAMILIES = tuple(
    frozenset(line.split()) for line in ALIKE.strip().replace("\n    ", " ").splitlines()
)
_KNOWN = frozenset({*VERBS, *VERBS_OR_NOUNS}.union(*_FAMILIES))

_IN_SHORT = re.compile(
    r"\W*(?:(?:an?|one|two|three|new|another|quick|\d+)\s+)*(?P<thing>[a-z]{3,})\s+(?:to|for|from|at|on|in|with)\b"
)
_LEFT_OPEN = re.compile(
    r"\b(?:work (?:on|through)|tak(?:e|ing) care of|deal with|handle|process|resolve|act on|sort out"
    r"|follow (?:the|its|their|up|all|these|those|any|what)|carry out|do what|do everything|do all"
    r"|complete (?:the|all|my|every)|implement|do all (?:the )?tasks|as (?:described|instructed|specified|requested)"
    r"|according to|instructions?|steps|to-?dos?|runbook|checklist)\b"
)
"""Words that leave the acts to what they point at."""


_SAID = re.compile(
    r"\b(?:wr(?:ote|ites?|itten)|sa(?:ys?|id)|ask(?:s|ed)|want(?:s|ed)|told|tells|names?|named|g(?:ave|ives)"
    r"|left|mailed|messaged|posted|suggest(?:s|ed)|recommend(?:s|ed)|mention(?:s|ed)|request(?:s|ed)"
    r"|(?:see|in|on|from|per|under) (?:his|her|their|its|the) (?:e-?)?(?:mail|message|note|letter|post|comment"
    r"|ticket|issue|request|invitation|invoice|board|page|site|website|profile|reply|thread|chat))\b"
)
"""Words by which somebody goes by what another said."""


def speaks_of(
    prompt: str,
    tool: str,
    effect: Effect,
    about: Mapping[str, Any] | None = None,
    *,
    thing: bool = False,
    done: Collection[str] = (),
    named: Callable[[], bool] = lambda: False,
) -> bool:
    """Tell whether `prompt` has a word that asks for what `tool` does.

    That is a form of one of its verbs or of one that means the same, or a word by which what it does
    is asked for; for a tool that only reads also the name of what it reads. `about` is its definition.
    With `thing` the prompt must speak of what it is done to as well. `done` are verbs by which the
    call itself says more exactly what is done. Whoever orders what means the same may speak of the
    thing by its name, as `named` tells.
    """
    said = _stems(prompt)
    deed = _deed_of(tool, about)
    if deed.lasting.exact and not said.meets(deed.lasting):
        return False  # to have something sent on is not to have all sent on from now on
    of_thing = said.meets(deed.things)
    if (
        said.meets(deed.verbs)
        or said.make(deed.things)
        or (done and said.meets(_stemmed(done)))
        or (of_thing and said_in_short(prompt).meets(deed.things) and _MAKING.meets(deed.verbs))
    ):
        return True
    alike, of_effect = said.meets(deed.alike), said.meets(_OF_EFFECT[effect])
    if effect is Effect.READ:
        return of_thing or alike
    if not deed.things.exact:
        return alike or of_effect
    if of_effect:
        return of_thing or not thing
    return alike and (of_thing or (_is_ordered(prompt, deed) and named()))


def _is_ordered(prompt: str, deed: "Deed") -> bool:
    """Tell whether `prompt` orders `deed` in other words: "see her record" orders to record nothing."""
    return _stemmed(ordered(prompt)).meets(deed.alike)


def lasts(tool: str) -> bool:
    """Tell whether `tool` sets up what goes on by itself, by its name: `create_filter`."""
    return bool(_deed_of(tool, None).lasting.exact)


def hints_at(prompt: str, tool: str, about: Mapping[str, Any]) -> bool:
    """Tell whether `prompt` has one word for what `tool` does or for what it is about.

    It is as much as can be asked of words in a language that is not read here.
    """
    said, deed = _stems(prompt), _deed_of(tool, about)
    return said.meets(deed.things) or said.meets(deed.alike)


def gives(prompt: str, name: str, value: str) -> bool:
    """Tell whether `prompt` gives `value` beside the name of its argument: "3 stars", "code 03062"."""
    beside = _beside(prompt).get(value.casefold())
    return beside is not None and not beside.isdisjoint(map(singular, words_of(name)))


@heard
def _beside(prompt: str) -> Mapping[str, frozenset[str]]:
    """Return for each word the words that stand beside it, in the singular."""
    found: dict[str, set[str]] = {}
    for before, after in pairwise(_TOKEN.findall(plain(prompt))):
        found.setdefault(after, set()).add(singular(before))
        found.setdefault(before, set()).add(singular(after))
    return {word: frozenset(others) for word, others in found.items()}


def done_by(arguments: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the verbs among the choices that `arguments` make: `state: closed`.

    Only what the approved definition gives to choose from, so that nobody puts other words there.
    """
    schema = about.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, declared in properties.items() if isinstance(properties, Mapping) else ():
        choices = declared.get("enum") if isinstance(declared, Mapping) else None
        chosen = arguments.get(name)
        if isinstance(choices, list) and isinstance(chosen, str) and chosen in choices:
            yield from (word for word in words_of(chosen) if _stem(word) in _KNOWN_STEMS)


@heard
def said_in_short(prompt: str) -> "Stems":
    """Return the things that `prompt` asks for without a verb: "train to Berlin on 3 December".

    A sentence does that if it begins with the thing, a word of place, time or purpose follows, and
    nothing in it says what is or was.
    """
    sentences = SENTENCE.split(plain(prompt))
    found = (_IN_SHORT.match(one) for one in sentences if not TELLS.search(one))
    return _stemmed(match["thing"] for match in found if match)


@heard
def speaks_of_pages(prompt: str) -> bool:
    """Tell whether `prompt` speaks of something that lies at a URL, or leaves open what to do."""
    return _stems(prompt).meets(_PAGES) or leaves_open(prompt)


@heard
def tells_of_words(prompt: str) -> bool:
    """Tell whether `prompt` goes by what somebody said, wrote or left: "he wrote which one"."""
    return _SAID.search(prompt.lower()) is not None


@heard
def is_read(prompt: str) -> bool:
    """Tell whether `prompt` is in a language whose verbs are known here: English has small words.

    What cannot be read asks for nothing and denies nothing.
    """
    words = frozenset(_LETTERS.findall(plain(prompt)))
    return len(words & _SMALL) * _ONE_IN >= min(len(words), _ENOUGH_WORDS)


@heard
def leaves_open(prompt: str) -> bool:
    """Tell whether `prompt` leaves what is to be done to what it points at: "work on ticket 7"."""
    return _LEFT_OPEN.search(prompt.lower()) is not None


def orders(prompt: str, tool: str) -> bool:
    """Tell whether `prompt` tells somebody to do what `tool` does, and to what.

    This is more than `speaks_of`: "who was invited by an email" speaks of mail and orders none.
    """
    deed = _deed_of(tool, None)
    return not _words(prompt).isdisjoint(deed.asking) and (
        not deed.things.exact or _stems(prompt).meets(deed.things)
    )


@value
class Stems:
    """Words by their stems, so that "refer" meets "referral" and "prescribe" a "prescription"."""

    stems: frozenset[str]
    exact: frozenset[str]
    """The stems, and how the longer ones begin."""
    roots: frozenset[str]
    """What they are made of, if they are longer."""

    def make(self, other: "Stems") -> bool:
        """Tell whether one of `other` is made of one of these, as "invitation" is of "invite"."""
        return not self.stems.isdisjoint(other.roots)

    def meets(self, other: "Stems") -> bool:
        """Tell whether one of these is one of `other`, begins with it, or begins as it does."""
        return not (
            self.exact.isdisjoint(other.exact)
            and self.exact.isdisjoint(other.roots)
            and self.roots.isdisjoint(other.exact)
        )


@value
class Deed:
    """What a tool's own words say that it does."""

    verbs: Stems
    asking: frozenset[str]
    """The verbs of its name, and those that mean the same, as they are."""
    alike: Stems
    """Verbs that mean the same, or nearly."""
    things: Stems
    lasting: Stems
    """Those of the things that go on by themselves."""


def _deed_of(tool: str, about: Mapping[str, Any] | None) -> Deed:
    described = "" if about is None else about.get("description")
    title = "" if about is None else about.get("title")
    return _deed(
        tool,
        title if isinstance(title, str) else "",
        described[:_LONGEST_DESCRIPTION] if isinstance(described, str) else "",
    )


def _name(prompt: str, /) -> bytes:
    return digest_of(prompt)


def _name_of_deed(tool: str, title: str, described: str, /) -> Hashable:
    if len(tool) + len(title) + len(described) <= _SHORT_NAME:
        return tool, title, described  # takes no more room than a digest, and no time
    return digest_of(f"{tool}\0{title}\0{described}")


def _weight(words: frozenset[str]) -> int:
    return sum(_WORD_OCTETS + len(word) for word in words)


def _weight_of_stems(stems: Stems) -> int:
    return _weight(stems.stems) + _weight(stems.exact) + _weight(stems.roots)


def _weight_of_deed(deed: Deed) -> int:
    stems = map(_weight_of_stems, (deed.verbs, deed.alike, deed.things, deed.lasting))
    return sum(stems) + _weight(deed.asking)


@heard
@remembered(most=_MOST_PROMPTS, octets=_OCTETS, key=_name, weigh=_weight)
def _words(prompt: str, /) -> frozenset[str]:
    return frozenset(_WORD.findall(plain(prompt)))


@heard
@remembered(most=_MOST_PROMPTS, octets=_OCTETS, key=_name, weigh=_weight_of_stems)
def _stems(prompt: str, /) -> Stems:
    text = plain(prompt)
    words = _WORD.findall(text)
    words += (word for idiom, meant in IDIOMS if idiom.search(text) for word in meant)
    again = (word[2:] for word in words if word.startswith("re") and word[2:] in _KNOWN)
    return _stemmed((*words, *again, *(first + second for first, second in pairwise(words))))


@remembered(most=_MOST_TOOLS, octets=_OCTETS, key=_name_of_deed, weigh=_weight_of_deed)
def _deed(tool: str, title: str, described: str, /) -> Deed:
    named, things = _parts(tool)
    verbs = {*named, *_leading(title), *_leading(described)}
    alike = frozenset(word for one in verbs for word in _asking(one))
    lasting = (word for word in things if singular(word) in LASTING)
    return Deed(
        verbs=_stemmed(verbs),
        asking=frozenset[str]().union(*map(_asking, named)),
        alike=_stemmed(alike - verbs),
        things=_stemmed(things),
        lasting=_stemmed(lasting),
    )


def _leading(sentence: str) -> tuple[str, ...]:
    """Return the verb that `sentence` begins with, in its base form, if it may be one."""
    words = (word for word in _WORD.findall(sentence.lower()) if word not in ASIDES)
    first = next(words, None)
    return () if first is None else (first, first.removesuffix("s"))


def _parts(tool: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the verbs of a tool's name, and its other words: `create_or_update_file`, `inbox_reply`.

    A verb leads, or follows another; in a name that leads with none, it is the first that there is.
    """
    words = words_of(tool)
    verbs = [word for word in words[:1] if word in _KNOWN]
    verbs += [after for joined, after in pairwise(words) if joined in JOINING and after in _KNOWN]
    verbs = verbs or [word for word in words if word in _KNOWN][:1] or list(words[:1])
    rest = (word for word in words if word not in verbs and word not in JOINING)
    return frozenset(verbs), frozenset(word for word in rest if len(word) >= _SHORTEST_STEM)


def _asking(verb: str) -> frozenset[str]:
    return frozenset({verb}.union(*(family for family in _FAMILIES if verb in family)))


def _stemmed(words: Iterable[str]) -> Stems:
    stems = frozenset(_stem(word) for word in words)
    roots = (stem[:length] for stem in stems for length in range(_ROOT, len(stem)))
    exact = stems.union(stem[:_SAME] for stem in stems)
    return Stems(stems=stems, exact=exact, roots=frozenset(roots))


def _stem(word: str) -> str:
    """Return what the forms of a regular English word have in common."""
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


_ONE_IN = 8
_ENOUGH_WORDS = 40
_SMALL = frozenset(
    """
    the and or of to at for from with by are been it its this that these those my your our their his them us
    you they i what which who when where how there not does did have has had can could will would should
    please if then than any about into out get put
    """.split()  # noqa: SIM905 - a table of words
)
"""Words that few English sentences are without, and that hardly any other language has."""

_OF_EFFECT = {effect: _stemmed(ASKING.get(effect, "").split()) for effect in Effect}
_PAGES = _stemmed(AT_A_URL.split())
_MAKING = _stemmed(
    "add arrange book buy compose create draft hire make order place purchase reserve schedule send".split()  # noqa: SIM905 - a table of words
)
"""Verbs that whoever names a thing alone leaves out."""
_KNOWN_STEMS = frozenset(_stem(word) for word in _KNOWN)
