"""Finding tools: what the gateway's own tools answer, out of what the principal may see anyway."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

from gateway.builtin.briefs import brief_text
from gateway.builtin.descriptions import Descriptions
from gateway.builtin.meta_tools import (
    DEFINITIONS,
    SUBAGENT,
    Detail,
    Form,
    Shape,
    Wanted,
    language_of,
    misuse,
    named,
    wanted,
    with_stubs,
)
from gateway.builtin.offers import Offer, Offers, require_room
from gateway.domain.calls import Permit
from gateway.domain.programs import Language
from gateway.domain.tools import Kind, Manifest
from gateway.errors import BadCommand
from gateway.turns import QUICK_NODES, finished
from gateway.wire import jsontext
from gateway.wire.operations import CALL_TOOL, SEARCH_TOOLS, TOOL_DETAILS

_STUBBING: Final = QUICK_NODES + 1
"""A small schema too can become a long stub: always beside the loop."""
_FALLBACK: Final = "keyword"
_FOUND: Final = f"The same search finds the same. Go on with {TOOL_DETAILS}, then {CALL_TOOL}."
_NOTHING_FOUND: Final = (
    "The same search finds the same: nothing. Say one step in other words, or leave server out."
)
_NOT_KNOWN: Final = f"Find what the unknown ones are called with {SEARCH_TOOLS}."


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
        approved: Mapping[str, tuple[Manifest, str]],
        visible: AbstractSet[str],
        limit: int,
        strategy: str | None = None,
        who: str = "",
    ) -> Ranking:
        """Return the best of the `visible` tools, as if no others existed; `who` asks.

        Raises:
            BadCommand: A pattern was asked for that is none, or is too large.
            RateLimited: So much of `who` waits already.

        """
        ...


class Chooser(Protocol):
    """Whoever else can be asked which tools fit, outside of this process."""

    async def choose(
        self, request: str, *, tools: Mapping[str, str], limit: int
    ) -> Sequence[str] | None:
        """Return names of `tools`, which are descriptions by name; `None` without an answer."""
        ...


class Discovery:
    """Answers with what `tools/list` would show to the same principal. Asks no server."""

    def __init__(
        self,
        *,
        offers: Offers,
        catalog: Catalog,
        descriptions: Descriptions,
        subagent: Chooser | None = None,
        strategy: str | None = None,
        stub: Callable[[Offer, Language], str] | None = None,
        languages: Sequence[Language] = (),
    ) -> None:
        """`strategy` is how it is searched unless a caller says; without one, as the catalog likes.

        `stub` words a tool as a function of a language, where programs are run; of these they are.
        """
        self._languages = languages
        self._offers = offers
        self._catalog = catalog
        self._descriptions = descriptions
        self._subagent = subagent
        self._strategy = strategy
        self._stub = stub

    @property
    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """What is listed of it."""
        return DEFINITIONS if self._stub is None else with_stubs(self._languages)

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
        return found

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
        visible = await self._visible(permit, search)
        strategy = search.strategy or self._strategy
        if strategy == SUBAGENT:
            chosen = await self._chosen(permit, search, visible)
            if chosen is not None:
                return await self._answered(
                    permit, search, chosen, found=len(chosen), answered_by=SUBAGENT
                )
            strategy = _FALLBACK
        by_id = {offer.id: offer for offer in visible}
        ranking = await self._catalog.search(
            search.query,
            approved=self._offers.approved_tools(),
            visible=by_id.keys(),
            limit=search.limit,
            strategy=strategy,
            who=permit.principal.person,
        )
        best = [by_id[hit.id] for hit in ranking.hits]
        answered_by = str(ranking.answered_by)
        return await self._answered(
            permit, search, best, found=ranking.found, answered_by=answered_by
        )

    async def _visible(self, permit: Permit, search: Wanted) -> Sequence[Offer]:
        offers = await self._offers.of(permit.call, permit.principal, Kind.TOOL)
        return [offer for offer in offers if search.server in {None, offer.target.server}]

    async def _chosen(
        self, permit: Permit, search: Wanted, visible: Sequence[Offer]
    ) -> Sequence[Offer] | None:
        """Return what the subagent chose of `visible`; `None` if there is none, or no answer."""
        if self._subagent is None:
            return None
        tools = {offer.name: _described(offer) for offer in visible}
        names = await self._subagent.choose(search.query, tools=tools, limit=search.limit)
        if names is None:
            return None
        # What it says is no more than a choice, and took seconds: whatever the caller may not see, or
        # not any more, is not in it.
        now = {offer.name: offer for offer in await self._visible(permit, search)}
        return [now[name] for name in names if name in tools and name in now]

    async def _details(self, permit: Permit, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        forms = [Form.FULL] if self._stub is None else list(Form)
        names, form = named(arguments, forms, self._languages)
        language = language_of(arguments, self._languages)
        offers = await self._offers.of(permit.call, permit.principal, Kind.TOOL)
        known = {offer.name: offer for offer in offers}
        told = [known[name] for name in names if name in known]
        unknown = [name for name in names if name not in known]
        require_room(told)
        await self._descriptions.note(permit, told)
        nodes = 0 if form is Form.FULL else _STUBBING
        worded = await finished(permit.principal.person, nodes, self._worded, told, form, language)
        answer: dict[str, Any] = {**worded, "unknown": unknown}
        if candidates := _candidates(unknown, offers):
            answer["candidates"] = candidates
        return _result({**answer, "next": _NOT_KNOWN} if unknown else answer)

    def _worded(self, told: Sequence[Offer], form: Form, language: Language) -> Mapping[str, Any]:
        if form is Form.FULL or self._stub is None:
            return {"tools": [self._told(offer, Detail.FULL) for offer in told]}
        # What the operator says of a tool is in no server's text, so it stands beside them.
        guidance = {
            offer.name: content
            for offer in told
            if (content := self._descriptions.guidance(offer.target).content)
        }
        stubs = "\n".join(self._stub(offer, language) for offer in told)
        return {"stubs": stubs, **({"guidance": guidance} if guidance else {})}

    async def _answered(
        self, permit: Permit, search: Wanted, best: Sequence[Offer], *, found: int, answered_by: str
    ) -> Mapping[str, Any]:
        if search.detail is Detail.FULL:
            require_room(best)
            await self._descriptions.note(permit, best)
        servers: dict[str, list[Any]] = {}
        for offer in best:
            servers.setdefault(offer.target.server, []).append(self._told(offer, search.detail))
        answer = {
            "answered_by": answered_by,
            "found": found,
            "servers": servers,
            "next": _FOUND if best else _NOTHING_FOUND,
        }
        references = search.shape is Shape.TOOL_REFERENCE
        return _result(answer, [offer.name for offer in best] if references else None)

    def _told(self, offer: Offer, detail: Detail) -> Any:
        guidance = self._descriptions.guidance(offer.target)
        content = offer.definition.content
        match detail:
            case Detail.NAME:
                return offer.name
            case Detail.SUMMARY:
                return {"name": offer.name, "description": brief_text(content, guidance)}
            case Detail.FULL:
                return {
                    "definition": jsontext.written(offer.text),
                    "definition_hash": str(offer.definition.digest),
                    **guidance.content,
                }


def _candidates(unknown: Sequence[str], offers: Sequence[Offer]) -> Mapping[str, Sequence[str]]:
    """Return what may be meant by names that lack their server."""
    found: dict[str, list[str]] = {name: [] for name in unknown}
    for offer in offers:
        if offer.target.name in found:
            found[offer.target.name].append(offer.name)
    return {name: names for name, names in found.items() if names}


def _result(
    answer: Mapping[str, Any], references: Sequence[str] | None = None
) -> Mapping[str, Any]:
    """Return `answer` as a result; for a host that asks with `references`, names of tools."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": jsontext.write(answer)}]}
    if references is not None:
        # The answer is not in there as well: hosts that show a model both would pay for it twice.
        result["structuredContent"] = {
            "content": [{"type": "tool_reference", "tool_name": name} for name in references]
        }
    return result


def _described(offer: Offer) -> str:
    described = offer.definition.content.get("description")
    return described if isinstance(described, str) else ""
