"""What `tools/list` shows of all that is offered: which tools, and how much of each."""

from collections.abc import Sequence
from typing import TypeAlias

from gateway.builtin.offers import Offer
from gateway.domain.calls import Permit

Item: TypeAlias = tuple[str, str]
"""The name of what is listed, and its definition as JSON."""


class Shelf:
    """Lists everything, whole."""

    def items(self, permit: Permit, offers: Sequence[Offer]) -> Sequence[Item]:  # noqa: ARG002 - what a client is shown may differ
        """Return what the caller of `permit` is shown of `offers`, in their order."""
        return [(offer.name, offer.text) for offer in offers]
