"""What the web needs of the pipeline."""

from typing import Protocol

from gateway.domain.calls import Call, Reply
from gateway.errors import GatewayError


class Carrier(Protocol):
    async def known(self, call: Call) -> str | Reply:
        """Return a key of whoever holds the credential of `call`, or the refusal if nobody does.

        It is of the head alone. The credential is looked at again once the call is carried: its
        body may take its time, and the credential end meanwhile.
        """
        ...

    async def handle(self, call: Call) -> Reply:
        """Carry `call` to its reply, which may be a refusal; raises nothing of ours."""
        ...

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        """Refuse what could not be read as a call, and record it like any refusal."""
        ...
