"""What tokens for programs rest on: who asks, which tools they may know of, and what is filed."""

from collections.abc import Mapping
from typing import Protocol

from gateway.domain._value import value
from gateway.domain.identity import Principal
from gateway.domain.tools import UpstreamId
from gateway.ports import Authenticator
from gateway.ports.scripts import ScriptStore


class VisibleTools(Protocol):
    """The tools in front of all servers, as somebody sees them."""

    async def of(
        self, principal: Principal, source_ip: str
    ) -> Mapping[str, tuple[UpstreamId, str]]:
        """Return server and tool of each name that a program of the principal's may know of.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        ...


@value
class Programs:
    """The asynchronous ports of the grant that trades a token for one of a program.

    Whoever asks waits in a thread of `intake`: they may want one of the loop's own pool.
    """

    authenticator: Authenticator
    """The gate at which the tokens are shown: what it does not admit is traded for nothing."""
    tools: VisibleTools
    scripts: ScriptStore
