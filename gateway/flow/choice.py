"""Who chose a destination: what its proof, its source and an outsider's words come to together."""

from collections.abc import Sequence
from dataclasses import replace

from gateway.domain.flow import Chosen, Destination, FlowReview, Form, Proof, Said
from gateway.domain.labels import Integrity
from gateway.domain.standing import StandingAnswer, places_of

_PLAIN = {
    Proof.TENANT: Chosen.TENANT,
    Proof.TASK: Chosen.TASK,
    Proof.TYPED: Chosen.TYPED,
    Proof.TRUSTED_RESULT: Chosen.TRUSTED_RESULT,
}
_ADDRESSES = frozenset({Form.EMAIL, Form.URL})
"""What reaches somebody anywhere is no server's own name, whatever its field is called."""
_UNPROVEN = frozenset({Chosen.OUTSIDER, Chosen.NOBODY})


def chosen(destination: Destination, server: str) -> Chosen:
    """Return who chose `destination` of a call to `server`.

    A list shows that a thing exists, and not that it is meant; a server's own name for a thing an
    outsider writes beside, and not into. Where an outsider's words name either, they may have chosen it.
    """
    proof, said = destination.proof, destination.said
    if destination.integrity is Integrity.TRUSTED and proof is not Proof.NONE:
        listed = proof in (Proof.TYPED, Proof.TRUSTED_RESULT)
        return Chosen.PICKED if listed and said is Said.OUTSIDER else _PLAIN[proof]
    if proof is Proof.TASK:
        return Chosen.POINTED
    if said is Said.OUTSIDER:
        return Chosen.OUTSIDER
    if proof is Proof.TYPED and is_own(destination, server):
        return Chosen.OWN_ID if said is Said.NOT else Chosen.POINTED
    if destination.form is Form.NAME or _is_given(destination):
        return Chosen.NAME if said is Said.NOT else Chosen.PICKED
    return Chosen.NOBODY


def answered(
    destinations: tuple[Destination, ...],
    answers: Sequence[StandingAnswer],
    *,
    asked: bool | None,
) -> tuple[Destination, ...]:
    """Return `destinations`, of which a person chose those without better proof, if an answer stands.

    One stands for exactly its places: one more beside them, or one less, is another question. What
    the tables take for more, by whether the user's words ask for the deed or leave it open (`asked`,
    and `None` where nobody declares any), stays that.
    """
    places = places_of(destinations)
    answer = next((one for one in answers if one.places == places), None)
    return destinations if answer is None else _by_a_person(destinations, answer.id, asked=asked)


def if_answered(review: FlowReview) -> FlowReview:
    """Return `review` as it would be if an answer stood for where the call goes."""
    supposed = _by_a_person(
        review.destinations, "", asked=asked_by(review.asked_for, review.left_open)
    )
    return replace(review, destinations=supposed)


def asked_by(asked_for: bool | None, left_open: bool) -> bool | None:
    """Return whether the user's words ask for a deed, or leave it open; `None`: nobody declares any."""
    return asked_for if asked_for is None else asked_for or left_open


def _by_a_person(
    destinations: tuple[Destination, ...], answer: str, *, asked: bool | None
) -> tuple[Destination, ...]:
    weak = _UNPROVEN
    if asked is not True:
        weak |= {Chosen.PICKED}
    if asked is False:
        weak |= {Chosen.NAME}
    return tuple(
        replace(one, by=Chosen.STANDING, answer=answer) if one.by in weak else one
        for one in destinations
    )


def is_own(destination: Destination, server: str) -> bool:
    """Tell whether `server` gave it out as a name of its own."""
    return _is_given(destination) and (destination.origin or {}).get("server") == server


def _is_given(destination: Destination) -> bool:
    """Tell whether some server gave it out as a name of its own, and no address is one."""
    minted = (destination.origin or {}).get("minted") is True
    return minted and destination.form not in _ADDRESSES
