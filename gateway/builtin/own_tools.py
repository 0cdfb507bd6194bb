"""The seam of the gateway's own tools: each group of them is listed, and answers, by itself."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.domain.calls import Permit


class OwnTools(Protocol):
    """Some of the gateway's own tools, which belong together."""

    @property
    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """What is listed, for everybody alike; each name has its row in `gateway.wire.operations`."""
        ...

    async def answer(self, permit: Permit) -> Mapping[str, Any]:
        """Return the result of a call of one of them; what was wrong with it is said in the result.

        Raises:
            PolicyUnavailable: Nobody knows what may be shown.

        """
        ...
