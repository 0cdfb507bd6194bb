"""Whether the words that a host declares ask for one call.

What they ask for is told by what the tool says that it does. Of one that nobody labelled its approved
definition says so: then its words count for as much as those of an effect that somebody declared, and
what only reads is asked for by any task. What it may do to what it reaches follows from its effect alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from gateway.domain.bounded import digest_of, remembered
from gateway.domain.flow import Destination
from gateway.domain.labels import Effect
from gateway.flow.arguments import arguments_of, effects_of_arguments
from gateway.flow.intent import done_by, gives, hints_at, is_read, speaks_of
from gateway.flow.provenance import Provenance
from gateway.flow.results import text_of
from gateway.flow.task import is_number
from gateway.flow.task import words_of as words_of_prompt
from gateway.flow.titles import name_one_of
from gateway.flow.use import Use
from gateway.flow.wording import spoken_effects, worst
from gateway.flow.words import words_of

_MOST_TOOLS = 1024
_OCTETS = 1024**2
_ENTRY = 200
_LONGEST_VALUE = 32
_DICTATED = frozenset({Effect.WRITE, Effect.EGRESS})
"""Effects that are about their content. A reason that is given for a deed asks for none."""


def asks_for(
    prompt: str,
    use: Use,
    carried: Sequence[str] = (),
    places: Sequence[Destination] = (),
    provenance: Provenance | None = None,
) -> bool | None:
    """Tell whether `prompt` asks for `use`; `None` where its language is none that is known here.

    `carried` is all that it carries; nothing, where that was not read to its end. `places` are what
    it is done to, whose names `provenance` knows.
    """
    if use.effect is None:
        return None
    told = told_of(use)
    if told is Effect.READ:
        return True
    no_place = not use.rule.destination
    done = tuple(done_by(use.arguments, use.about))
    known = Provenance() if provenance is None else provenance
    named = partial(name_one_of, prompt, places, known, use.server)
    for effect in {use.effect, told or use.effect}:
        if speaks_of(prompt, use.tool, effect, use.about, thing=no_place, done=done, named=named):
            return True
    given = any(gives(prompt, name, said) for name, said in _content(use))
    if given or ((told or use.effect) in _DICTATED and _dictates(prompt, carried)):
        return True
    if is_read(prompt):
        return False
    return True if hints_at(prompt, use.tool, use.about) else None


def _content(use: Use) -> Iterator[tuple[str, str]]:
    """Yield the short arguments of `use` that carry content; what it is done to asks for nothing."""
    for name in use.rule.payload:
        said = text_of(use.arguments.get(name))
        if said is not None and len(said) <= _LONGEST_VALUE:
            yield name, said


def _dictates(prompt: str, carried: Sequence[str]) -> bool:
    """Tell whether `prompt` says all that is `carried`, letter for letter, numbers aside.

    A part of it asks for nothing: whoever leads the agent may quote the user beside their own words.
    """
    words = words_of_prompt(prompt)
    texts = [text for text in carried if text and not is_number(text)]
    return bool(texts) and all(map(words.have, texts))


def told_of(use: Use) -> Effect | None:
    """Return what the tool itself says that it does, where nobody else said so; unsaid, as it is read."""
    if use.rule.effect is not None or use.effect in (None, Effect.READ):
        return None
    return told_by(use.tool, use.about) or use.effect


def told_by(tool: str, about: Mapping[str, Any]) -> Effect | None:
    """Return the worst effect that the definition of `tool` speaks for.

    To read is what the name or the description says, nothing else says more, and no annotation denies.
    """
    annotations = about.get("annotations")
    hints = annotations if isinstance(annotations, Mapping) else {}
    denied = hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True
    described = about.get("description")
    effect = _told(tool, described if isinstance(described, str) else "")
    found = [*effects_of_arguments(arguments_of(about.get("inputSchema")), reads=False)]
    if effect is not None:
        found.append(effect)
    if not found:
        return None
    said = worst(found)
    return None if said is Effect.READ and denied else said


def _name(tool: str, described: str, /) -> bytes:
    return digest_of(f"{tool}\0{described}")


def _weight(_: Effect | None) -> int:
    return _ENTRY


@remembered(most=_MOST_TOOLS, octets=_OCTETS, key=_name, weigh=_weight)
def _told(tool: str, described: str, /) -> Effect | None:
    heard = spoken_effects(words_of(tool), described)
    return worst(each.effect for each in heard) if heard else None
