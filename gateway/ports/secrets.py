"""The seams of secrets as they are used: sealed and opened, and shown to upstream servers."""

from collections.abc import Sequence
from typing import Protocol


class Sealer(Protocol):
    """Secrets at rest: authenticated, and bound to the row they stand in."""

    def seal(self, plain: bytes, row: str) -> str:
        """Return `plain` sealed for `row` (`table:key:column`), as ASCII text."""
        ...

    def open(self, sealed: str, row: str) -> bytes:
        """Return what `seal` was given.

        Raises:
            Unsealable: It was sealed for another row, by another key, or is damaged.

        """
        ...


class UpstreamCredentials(Protocol):
    """What the gateway shows to upstream servers in a person's name: never the client's token."""

    async def headers(
        self, server: str, user_id: str, principal_key: str, *, verb: str = "POST"
    ) -> Sequence[tuple[str, str]]:
        """Return the header fields to send to `server` for this person; empty where none is wanted.

        They are for one request, with `verb`.

        Raises:
            CredentialRequired: The person has to connect first; `url` is where.
            UpstreamFailed: Their authorization server gave no usable answer.

        """
        ...

    async def rejected(
        self,
        server: str,
        user_id: str,
        *,
        shown: Sequence[tuple[str, str]],
        status: int,
        challenge: str,
        nonce: str = "",
        verb: str = "POST",
    ) -> Sequence[tuple[str, str]]:
        """Return other header fields than `shown`, to try once, after the upstream refused those.

        `status` is 401 or 403, `challenge` its `WWW-Authenticate`, `nonce` its `DPoP-Nonce`.

        Raises:
            CredentialRequired: There are none; `url` is where the person can get better ones.
            UpstreamFailed: Their authorization server gave no usable answer.

        """
        ...
