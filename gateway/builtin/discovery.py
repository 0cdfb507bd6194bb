"""Finding tools: what the gateway's own tools answer, out of what the principal may see anyway."""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

from gateway.builtin.meta_tools import DEFINITIONS, Detail, misuse, named, wanted
from gateway.builtin.offers import Offer, Offers, offer_id
from gateway.domain.calls import Permit
from gateway.domain.tools import Kind, Manifest
from gateway.errors import BadCommand
from gateway.wire import jsontext
from gateway.wire.operations import SEARCH_TOOLS, TOOL_DETAILS

_SUMMARY: Final = 200
"""Characters of a description."""


class Hit(Protocol):
    """One tool that was found."""

    @property
    def id(self) -> str: ...


class Ranking(Protocol):
    """What a search found, the best first."""

    @property
    def hits(self) -> Sequence[Hit]: ...
    @property
    def found(self) -> int: ...
    @property
    def answered_by(self) -> str: ...


class Catalog(Protocol):
    """Ranks tools by how they fit a request."""

    async def search(
        self,
        request: str,
        *,
        approved: Mapping[str, Manifest],
        visible: AbstractSet[str],
        limit: int,
        strategy: str | None = None,
    ) -> Ranking:
        """Return the best of the `visible` tools, as if no others existed.

        Raises:
            BadCommand: A pattern was asked for that is none.

        """
        ...


class Discovery:
    """Answers with what `tools/list` would show to the same principal. Asks no server."""

    def __init__(self, *, offers: Offers, catalog: Catalog) -> None:
        self._offers = offers
        self._catalog = catalog

    @property
    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """What is listed of it."""
        return DEFINITIONS

    async def answer(self, permit: Permit) -> Mapping[str, Any]:
        """Return the result of a call of one of the gateway's own tools.

        What it was called with wrongly it is told in the result, as one that can be mended.

        Raises:
            PolicyUnavailable: Nobody knows what may be shown.

        """
        try:
            found = await self._found(permit)
        except BadCommand as error:
            text = f"{error.public[:1].upper()}{error.public[1:]}. Nothing was done; try again."
            return {"content": [{"type": "text", "text": text}], "isError": True}
        # Not as structuredContent as well: hosts that show a model both would pay for it twice.
        return {"content": [{"type": "text", "text": jsontext.write(found)}]}

    async def _found(self, permit: Permit) -> Mapping[str, Any]:
        params = permit.call.message.params
        arguments = params.get("arguments") or {}
        if params["name"] == SEARCH_TOOLS:
            return await self._search(permit, arguments)
        if params["name"] == TOOL_DETAILS:
            return await self._details(permit, arguments)
        raise BadCommand(misuse(arguments))  # a call_tool that calls something never gets here

    async def _search(self, permit: Permit, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        search = wanted(arguments)
        visible = {
            offer_id(offer.target, offer.profile): offer
            for offer in await self._offers.of(permit.call, permit.principal, Kind.TOOL)
            if search.server in {None, offer.target.server}
        }
        ranking = await self._catalog.search(
            search.query,
            approved=self._offers.approved_tools(),
            visible=visible.keys(),
            limit=search.limit,
            strategy=search.strategy,
        )
        servers: dict[str, list[Any]] = {}
        for hit in ranking.hits:
            offer = visible[hit.id]
            servers.setdefault(offer.target.server, []).append(_told(offer, search.detail))
        return {
            "answered_by": str(ranking.answered_by),
            "found": ranking.found,
            "servers": servers,
        }

    async def _details(self, permit: Permit, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        names = named(arguments)
        offers = await self._offers.of(permit.call, permit.principal, Kind.TOOL)
        known = {offer.name: offer for offer in offers}
        return {
            "tools": [_told(known[name], Detail.FULL) for name in names if name in known],
            "unknown": [name for name in names if name not in known],
        }


def _told(offer: Offer, detail: Detail) -> Any:
    match detail:
        case Detail.NAME:
            return offer.name
        case Detail.SUMMARY:
            described = offer.definition.content.get("description")
            summary = described[:_SUMMARY] if isinstance(described, str) else ""
            return {"name": offer.name, "description": summary}
        case Detail.FULL:
            return {
                "definition": json.loads(offer.text),
                "definition_hash": str(offer.definition.digest),
            }
