"""What signing in at an identity provider looks like from here (OpenID Connect Core section 3.1)."""

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from gateway.domain._value import value
from gateway.domain.grants import Transaction


@value
class Departure:
    """Where to send a browser, and what to keep until it comes back."""

    url: str
    secrets: bytes = field(repr=False)
    """State, nonce and verifier, in a form of the federation's own; sealed while they wait."""


class Identity(Protocol):
    """Whom a provider vouches for."""

    @property
    def issuer(self) -> str: ...

    @property
    def subject(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def groups(self) -> frozenset[str]:
        """Groups of ours, mapped from the provider's."""
        ...

    @property
    def proven_at(self) -> float:
        """When the person showed the provider who they are; 0 if it does not say."""
        ...


class Federation(Protocol):
    """Speaks OpenID Connect with the configured providers."""

    async def begin(self, provider: str, transaction: Transaction) -> Departure:
        """Return where `transaction`'s browser signs in.

        `state` there begins with the transaction's id and a dot.

        Raises:
            UpstreamFailed: The provider's metadata cannot be had.

        """
        ...

    async def finish(
        self, provider: str, transaction: Transaction, secrets: bytes, query: Mapping[str, str]
    ) -> Identity:
        """Return who signed in, by the answer that the browser brought and what was kept for it.

        Raises:
            Refusal: The answer is not the one to what `begin` asked, or the provider said no.
            UpstreamFailed: The provider gave no usable answer.

        """
        ...


def transaction_of(state: str) -> str:
    """Return the id of the transaction that `state` belongs to, unverified."""
    return state.partition(".")[0]
