"""Which labels the definitions of a server's tools suggest.

Whatever is said here comes from the server itself, so a part of a suggestion that trusts a
tool more than no label does is marked. No label reads `effect` as `read` if the pinned annotations say
`readOnlyHint: true`, else as `destroy`; no argument says who or what is affected; results are
untrusted and private. Under the policies that come with the gateway that means:

- For a tool that reads as `read` they ask for nothing. Whatever is said of it is stricter.
- A tool that reads as `destroy` waits for a person in every run that has seen untrusted data. For
  any other effect there are calls that need not: also for `execute`, which is stricter elsewhere. A
  `destination` is milder too, because a call whose destination is proven need not wait.
- `payload` adds what may not be carried out.
- `result` is never trusted and never below private.
- `typed` is milder for every tool: an identifier out of a result is proof of a destination
  elsewhere.

What is milder is a question for a person (`Suggestion.lowers`).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from gateway.domain._value import value
from gateway.domain.labels import Confidentiality, Effect, Integrity, Label
from gateway.flow.arguments import (
    Argument,
    arguments_of,
    destination_of,
    effects_of_arguments,
    payload_of,
)
from gateway.flow.schemas import identifier_fields
from gateway.flow.wording import names_secrets, spoken_effects, worst
from gateway.flow.words import words_of

SECRET = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET)


@value
class Suggestion:
    """What a definition suggests of one tool, and which parts of it only a person may accept."""

    effect: Effect | None = None
    """`None`: nothing speaks for one; the tool stays read as it is without a label."""
    destination: tuple[str, ...] = ()
    payload: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    result: Label | None = None
    """`None`: the server's default."""
    unlabelled: Effect = Effect.DESTROY
    """How the tool is read without a label: `read` or `destroy`."""
    because: tuple[str, ...] = ()
    """What of the definition speaks for it, in a few words each; words of the server's own."""

    @property
    def lowers(self) -> tuple[str, ...]:
        """Which of `effect`, `destination` and `typed` trust the tool more than no label does."""
        destroys = self.unlabelled is not Effect.READ
        lowered = {
            "effect": destroys and self.effect not in {None, Effect.DESTROY},
            "destination": destroys and bool(self.destination),
            "typed": bool(self.typed),
        }
        return tuple(member for member, milder in lowered.items() if milder)


def suggest(server: str, definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, Suggestion]:
    """Return what the `definitions` of the tools of `server`, by name, suggest.

    The name of the server, where the names of its tools begin with it, says nothing of what they do.
    """
    prefix = words_of(server)
    return {
        name: suggestion_for(definition, prefix=prefix) for name, definition in definitions.items()
    }


def suggestion_for(
    definition: Mapping[str, Any], *, prefix: Sequence[str] = (), annotated: bool = True
) -> Suggestion:
    """Return what one `definition` suggests; with `annotated=False`, but for its annotations."""
    name = _without(prefix, words_of(str(definition.get("name", ""))))
    arguments = arguments_of(definition.get("inputSchema"))
    reads_unlabelled = annotated and _is_annotated_as_read(definition)
    effect, because = _effect(name, definition, arguments, reads_unlabelled=reads_unlabelled)
    # Arguments that are affected whatever the tool does: nobody knows yet that it only reads.
    destination = destination_of(effect or Effect.DESTROY, arguments)
    payload = payload_of(effect or Effect.DESTROY, arguments, destination)
    reads = effect is Effect.READ
    secret = names_secrets(name, definition.get("description"), reads=reads)
    if secret is not None:
        because = (*because, f"results may hold what gives access: {secret}")
    return Suggestion(
        effect=effect,
        destination=destination,
        payload=payload,
        typed=identifier_fields(definition.get("outputSchema")),
        result=None if secret is None else SECRET,
        unlabelled=Effect.READ if reads_unlabelled else Effect.DESTROY,
        because=because,
    )


def joined(suggestions: Iterable[Suggestion]) -> Suggestion:
    """Return what suits all of `suggestions`, at least one: a tool may have several definitions."""
    return reduce(_join, suggestions)


def _join(one: Suggestion, other: Suggestion) -> Suggestion:
    if one == other:
        return one
    # What nothing speaks for is read as the worst that nobody declared.
    effect = worst(each.effect or Effect.DESTROY for each in (one, other))
    return Suggestion(
        effect=effect,
        destination=_both(one.destination, other.destination),
        payload=_both(one.payload, other.payload),
        typed=_both(one.typed, other.typed),
        result=one.result or other.result,
        unlabelled=worst((one.unlabelled, other.unlabelled)),
        because=_both(one.because, other.because),
    )


def _both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _is_annotated_as_read(definition: Mapping[str, Any]) -> bool:
    annotations = definition.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True


def _without(prefix: Sequence[str], name: tuple[str, ...]) -> tuple[str, ...]:
    length = len(prefix)
    return name[length:] if 0 < length < len(name) and name[:length] == tuple(prefix) else name


def _effect(
    name: Sequence[str],
    definition: Mapping[str, Any],
    arguments: Sequence[Argument],
    *,
    reads_unlabelled: bool,
) -> tuple[Effect | None, tuple[str, ...]]:
    """Return the worst effect that anything speaks for, and what speaks for that one."""
    heard = [
        (each.effect, each.because) for each in spoken_effects(name, definition.get("description"))
    ]
    heard += [
        (effect, f"argument: {argument}")
        for effect, argument in effects_of_arguments(arguments, reads=reads_unlabelled).items()
    ]
    if reads_unlabelled:
        heard.append((Effect.READ, "annotations: readOnlyHint"))
    if not heard:
        return None, ()
    said = worst(effect for effect, _ in heard)
    return said, tuple(dict.fromkeys(because for effect, because in heard if effect is said))
