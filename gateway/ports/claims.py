"""The seam of what comes up at every gateway, and is done by one."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Claims(Protocol):
    """Whose it is to do what all gateways that share a database find at once: to record that something has ended."""

    def taken(self, what: str) -> AbstractAsyncContextManager[bool]:
        """Say whether `what` is to be done here: then nobody else does it meanwhile, nor for a minute after.

        Whoever fails may take it again; where its gateway has ended, another one may in a few minutes.

        Raises:
            AuditUnavailable: Nobody can say.

        """
        ...
