"""What the web needs of the pipeline."""

from typing import Protocol

from gateway.domain.calls import Call, Reply
from gateway.errors import GatewayError


class Carrier(Protocol):
    async def handle(self, call: Call) -> Reply:
        """Carry `call` to its reply, which may be a refusal; raises nothing of ours."""
        ...

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        """Refuse what could not be read as a call, and record it like any refusal."""
        ...
