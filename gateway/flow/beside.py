"""What a call says that no label speaks of: URIs, values of prompts and completions, answers."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from gateway.domain._value import value
from gateway.domain.flow import Destination, Form, Proof
from gateway.flow.telling import IN_A_PIECE, carries

Said: TypeAlias = tuple[tuple[str, str], ...]
"""Paths and the texts at them."""


@value
class Beside:
    """What a call says to its server beside a tool's own arguments."""

    places: Said = ()
    """What says where, or pretends that this server gave it out."""
    content: Said = ()
    """What the caller says by itself."""
    answers: Said = ()
    """What answers a question that policy let the server ask."""
    asides: Said = ()
    """Remarks about the message, ids, tokens: of a run that has read something ours go out in their place."""

    @property
    def told(self) -> Said:
        """What of it may carry more than chance would, all together, and goes out as it is."""
        said = (*self.places, *self.content, *self.answers)
        return said if carries(" ".join(text for _, text in said), IN_A_PIECE) else ()

    @property
    def texts(self) -> Said:
        """All of it, to be compared with what was read before."""
        return (*self.places, *self.content, *self.answers, *self.asides)


NOTHING = Beside()


def telling(content: Iterable[Destination]) -> Iterator[Destination]:
    """Yield those of a call's contents that need proof: all that have none, if they say much.

    A few letters that somebody types to have them completed reach nobody anywhere and carry nothing
    of worth. More of them can carry anything, however encoded; so can an address.
    """
    unproven = [one for one in content if one.proof is Proof.NONE]
    much = carries(" ".join(one.value for one in unproven), IN_A_PIECE)
    if much or any(one.form in (Form.EMAIL, Form.URL) for one in unproven):
        yield from unproven
