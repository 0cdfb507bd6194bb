"""What refusals say of themselves, so that they can be told when they come back."""

from typing import Protocol

from gateway.domain.access_requests import Binding


class BindingTokens(Protocol):
    """Bindings as texts that whoever carries them cannot change."""

    def seal(self, binding: Binding) -> str:
        """Return `binding` as a text, signed by us."""
        ...

    def open(self, text: str) -> Binding | None:
        """Return what a text of ours says, also if it has expired; `None`: it is none of ours."""
        ...
