"""The one way out for URLs that somebody else names."""

from collections.abc import Mapping
from typing import Any, Protocol


class Served(Protocol):
    """What a web server answers, as far as documents are read from it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names."""
        ...

    @property
    def body(self) -> bytes: ...


class Fetched(Served, Protocol):
    """An answer to something that we fetched on somebody's word."""

    def json(self) -> Mapping[str, Any]:
        """Return the body as a JSON object, read strictly.

        Raises:
            UpstreamFailed: It is not one.

        """
        ...


class Fetcher(Protocol):
    """The one way out for URLs that somebody else names: metadata, keys, token endpoints.

    Connects to public addresses only, unless the operator allows others, and only to the address
    that was checked; follows no redirect; bounded in size and time. On the word of one `who`, by
    default the host of the URL, few names are looked up at once, and they hold up nobody else's.
    """

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, who: str = ""
    ) -> Fetched:
        """Return the answer, whatever its status.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No whole answer in time.

        """
        ...

    async def post(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        who: str = "",
    ) -> Fetched:
        """Send a form or a JSON document once, and return the answer, whatever its status.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No whole answer in time.

        """
        ...
