"""What a flow review says, as sentences for the person who is asked."""

from collections.abc import Callable, Iterator, Sequence

from gateway.domain.flow import Chosen, Destination, FlowReview, Proof, Source, untrusted_by
from gateway.domain.labels import Confidentiality, Integrity, Label

_LONGEST_VALUE = 200
_QUOTES = str.maketrans(dict.fromkeys('"\u201c\u201d\u201e\u2033\uff02', "'"))
UNKNOWN_RUN = "This call names a run that is not known: it counts as untrusted."
FORGOTTEN = "What the run of this call has read is forgotten: it counts as untrusted."
_MOST = 40
"""Sentences. A person reads no more."""


def sentences(review: FlowReview, written: Callable[[str], str] = str) -> tuple[str, ...]:
    """Return a sentence for each thing that a person should know before they say yes.

    They quote the call's destinations and links, each as its caller has `written` it and then cut,
    so they are for whoever may see its arguments.
    """
    told = [
        *(_about(destination, "", written) for destination in review.destinations),
        *(_about(link, "the link ", written) for link in review.links),
        *_carried(review),
        *_run(review),
    ]
    if review.asked_for is False:
        told.append("What the user wrote does not ask for what this tool does.")
    if len(told) > _MOST:
        told = [*told[:_MOST], f"There are {len(told) - _MOST} more things like these."]
    return tuple(told)


def _about(destination: Destination, what: str, written: Callable[[str], str]) -> str:
    named = f"{what}{quoted(written(destination.value))} ({destination.path})"
    sentence = f"{named} {_why(destination)}"
    return sentence[:1].upper() + sentence[1:]


def _why(destination: Destination) -> str:
    place = _place(destination)
    seen = destination.origin is not None
    chosen = destination.integrity is Integrity.UNTRUSTED
    why = "is one of ours."
    match destination.proof:
        case _ if destination.by is Chosen.STANDING:
            why = "is where a person lets this agent send with this tool, until they end that."
        case Proof.TENANT:
            pass
        case Proof.TASK if seen and chosen:
            why = f"is what {place} names, to which the user pointed; outsiders can write there."
        case Proof.TASK if seen:
            why = "was given before this run had read anything that is not trusted."
        case Proof.TASK:
            why = "stands in what the user wrote."
        case Proof.TYPED | Proof.TRUSTED_RESULT:
            kind = (
                "an identifier, and outsiders can write there." if chosen else "which is trusted."
            )
            why = f"was in a result of {place}, {kind}"
        case Proof.NONE:
            where = f"appears in a result of {place}" if seen else "was not seen in this run before"
            why = f"{where}, and nothing that is trusted names it."
    return why


def _place(destination: Destination) -> str:
    origin = destination.origin or {}
    return f"{origin.get('server', '')}/{origin.get('tool', '')}"


def quoted(text: str) -> str:
    """Return `text` in quotes that it cannot close itself, to go on as a sentence of ours."""
    shown = text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
    return f'"{shown.translate(_QUOTES)}"'


def _carried(review: FlowReview) -> Iterator[str]:
    """Yield, for each argument, the confidential results that it has pieces of."""
    places = {source.record: source for source in review.sources}
    for payload in review.payload:
        for match in payload.matches:
            if match.confidentiality < Confidentiality.PRIVATE:
                continue
            if not match.record:
                yield (
                    f"{payload.path} may carry {match.confidentiality.word} data: not all that this run "
                    "has read is remembered here."
                )
                continue
            source = places.get(match.record)
            whose = f"record {match.record}" if source is None else f"{source.server}/{source.tool}"
            hidden = f", hidden as {match.decoded}" if match.decoded else ""
            yield (
                f"{payload.path} carries {match.bytes} bytes of a {match.confidentiality.word} "
                f"result of {whose}{hidden}."
            )


def _run(review: FlowReview) -> Iterator[str]:
    yield from why_untrusted(review.label, review.sources, unnamed=review.unnamed)
    secret = [s for s in review.sources if s.label.confidentiality is Confidentiality.SECRET]
    if secret:
        yield f"This run has read secrets: {_names(secret)}."


def why_untrusted(
    label: Label, sources: Sequence[Source], *, unnamed: bool = False
) -> tuple[str, ...]:
    """Return the sentences that name what was read of outsiders, or say why nobody knows it.

    What a run has read is told also where a person vouched for it since; of the others that are
    trusted there is nothing to tell.
    """
    led = untrusted_by(sources)
    read = (f"This run has read what outsiders can write: {_names(led)}.",) if led else ()
    if unnamed:
        return (*read, UNKNOWN_RUN)
    return read if led or label.integrity is Integrity.TRUSTED else (FORGOTTEN,)


def _names(sources: Sequence[Source]) -> str:
    return ", ".join(f"{source.server}/{source.tool}" for source in sources[:8])
