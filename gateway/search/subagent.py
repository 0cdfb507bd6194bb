"""An endpoint of the operator's that is asked which tools fit: it hears of those that the caller may see."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from gateway.errors import EgressRefused, UpstreamFailed
from gateway.ports.egress import Fetched, Fetcher

logger = logging.getLogger(__name__)

_DESCRIPTION: Final = 1_000
"""Characters of each tool's description."""


class Subagent:
    """Sends a request and tools to one URL, and who asks to nobody."""

    def __init__(self, url: str, *, fetcher: Fetcher, token: str = "") -> None:
        """`token` is sent as a bearer token, if there is one; `fetcher` bounds time and size."""
        self._url = url
        self._fetcher = fetcher
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    async def choose(
        self, request: str, *, tools: Mapping[str, str], limit: int
    ) -> Sequence[str] | None:
        """Return the names of the `tools` that were chosen, the best first, at most `limit`.

        `tools` are descriptions by name: those that the caller may see, and no others. Names that are
        none of them are left out. `None` means that there was no usable answer.
        """
        asked = {
            "query": request,
            "limit": limit,
            "tools": [
                {"name": name, "description": described[:_DESCRIPTION]}
                for name, described in tools.items()
            ],
        }
        try:
            named = _names(await self._fetcher.post(self._url, json=asked, headers=self._headers))
        except (EgressRefused, UpstreamFailed) as error:
            logger.warning("discovery.subagent: %s", error.detail or error.public)
            return None
        return [name for name in dict.fromkeys(named) if name in tools][:limit]


def _names(answer: Fetched) -> list[str]:
    """Return the names in an answer.

    Raises:
        UpstreamFailed: It is no answer of this form.

    """
    if answer.status != HTTPStatus.OK:
        raise UpstreamFailed("no usable answer", detail=f"it answered {answer.status}")
    names: Any = answer.json().get("tools")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UpstreamFailed("no usable answer", detail="`tools` is no list of names")
    return names
