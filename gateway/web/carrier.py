"""What the web needs of the pipeline."""

from typing import Protocol

from gateway.domain.calls import Call, Reply
from gateway.domain.identity import Credential, Principal
from gateway.errors import GatewayError


class Carrier(Protocol):
    async def known(self, credential: Credential, endpoint: str) -> Principal:
        """Return whoever holds `credential` at `endpoint`, of which a head alone is known.

        The credential is looked at again once the call is carried: its body may take its time, and
        the credential end meanwhile.

        Raises:
            GatewayError: Nobody does, or that cannot be told now. Nothing of it is on record yet.

        """
        ...

    async def handle(self, call: Call) -> Reply:
        """Carry `call` to its reply, which may be a refusal; raises nothing of ours."""
        ...

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        """Refuse what could not be read as a call, and record it like any refusal."""
        ...
