"""Choosing servers: which of those that policy shows a principal wants to see at the one endpoint."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from gateway.builtin.offers import Offers
from gateway.builtin.server_tools import (
    ALL,
    DEFINITIONS,
    asked_for,
    described,
    fits,
    named_servers,
)
from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.calls import Permit
from gateway.domain.document import Document
from gateway.domain.selection import EVERY_SERVER, Selection
from gateway.domain.tools import Kind, UpstreamId
from gateway.errors import BadCommand, GatewayError
from gateway.ports import AuditLog, Clock, RunStore
from gateway.ports.selection import ChoiceStore
from gateway.turns import finished
from gateway.wire import jsontext
from gateway.wire.operations import DISABLE_SERVER, ENABLE_SERVER, SEARCH_SERVERS
from gateway.wire.own_session import chosen_in

EndSessions = Callable[[UpstreamId, str], None]
"""Ends what a principal, by its `key`, has open with a server."""

_MOST_TOLD: Final = 50
_NODES_OF_A_TOOL: Final = 50
"""How much of what is reckoned in nodes it is to look for some words in what a tool says."""
_LISTED: Final = (Kind.TOOL, Kind.PROMPT, Kind.TEMPLATE)
_FROM_WHEN: Final = (
    "This holds at once in this conversation, whose lists have changed if anything did: list the "
    "tools again. It holds in conversations that begin later; others that are under way stay as "
    "they are."
)


@value
class Known:
    """A server that a principal may know of."""

    name: UpstreamId
    itself: Document
    """What a person approved of the server itself."""
    tools: tuple[Document, ...]
    prompts: int


class ServerTools:
    """Finds servers and keeps choices. It narrows what policy shows, and nothing can widen that."""

    def __init__(
        self,
        *,
        offers: Offers,
        choices: ChoiceStore,
        always_on: frozenset[UpstreamId],
        runs: RunStore,
        audit: AuditLog,
        end_sessions: EndSessions,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        """Nobody can hide `always_on`: the configuration has them shown."""
        self._offers = offers
        self._choices = choices
        self._always_on = always_on
        self._runs = runs
        self._audit = audit
        self._end_sessions = end_sessions
        self._clock = clock
        self._new_id = new_id

    @property
    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """What is listed of it."""
        return DEFINITIONS

    async def answer(self, permit: Permit) -> Mapping[str, Any]:
        """Return the result of a call of one of these tools.

        Raises:
            PolicyUnavailable: Nobody knows what may be shown.
            AuditUnavailable: The choice could not be recorded, or not be kept.

        """
        try:
            told = await self._told(permit)
        except BadCommand as error:
            text = f"{error.public[:1].upper()}{error.public[1:]}. Nothing was done; try again."
            return {"content": [{"type": "text", "text": text}], "isError": True}
        return {"content": [{"type": "text", "text": jsontext.write(told)}]}

    async def _told(self, permit: Permit) -> Mapping[str, Any]:
        params = permit.call.message.params
        arguments = params.get("arguments") or {}
        match params["name"]:
            case name if name == SEARCH_SERVERS:
                return await self._search(permit, asked_for(arguments))
            case name if name == ENABLE_SERVER:
                named = named_servers(arguments)
                known = await self._known(permit, named - ALL)
                change = _every if named == ALL else partial(Selection.plus, servers=named)
                return await self._choose(permit, known, change, _worded(ENABLE_SERVER, named))
            case _:
                named = named_servers(arguments)
                known = await self._known(permit, named - ALL)
                self._require_hidable(named)
                change = _none if named == ALL else partial(Selection.without, servers=named)
                return await self._choose(permit, known, change, _worded(DISABLE_SERVER, named))

    def _require_hidable(self, named: frozenset[UpstreamId]) -> None:
        if stay := sorted(named & self._always_on):
            raise BadCommand(f"the operator always shows {', '.join(stay)}, which nobody can hide")

    async def _search(self, permit: Permit, query: str) -> Mapping[str, Any]:
        known = await self._known(permit)
        next_ = self._choices.of(permit.principal.key).newest.plus(self._always_on)
        nodes = _NODES_OF_A_TOOL * sum(len(one.tools) for one in known.values())
        found = await finished(permit.principal.person, nodes, _fitting, query, known.values())
        servers = [
            {
                "name": one.name,
                **described(one.itself),
                "tools": len(one.tools),
                "prompts": one.prompts,
                "in_this_conversation": permit.principal.servers.shows(one.name),
                "in_the_next": next_.shows(one.name),
                "always_on": one.name in self._always_on,
            }
            for one in found[:_MOST_TOLD]
        ]
        return {"found": len(found), "servers": servers}

    async def _choose(
        self,
        permit: Permit,
        known: Mapping[UpstreamId, Known],
        change: Callable[[Selection], Selection],
        step: str,
    ) -> Mapping[str, Any]:
        """Keep a choice, which is on record by then, and end what it leaves open."""
        principal, session, run = permit.principal, permit.session, permit.run.id
        live = frozenset(self._runs.live(principal))
        # A session is the conversation that asks; without one it is the run, in which it holds.
        runs = live - {run} if session is None else live | {run}
        await self._record(permit, step, verdict="allow", code="servers_chosen")
        try:
            chosen = await self._choices.choose(
                principal.key,
                lambda choices: change(chosen_in(choices, session, run)),
                runs=runs,
                session=session or "",
            )
        except GatewayError as error:
            await self._record(permit, step, verdict="error", code=error.code)
            raise
        chosen = chosen.plus(self._always_on)
        for server in self._offers.servers:
            if not chosen.shows(server):
                self._end_sessions(server, principal.key)
        return {
            "servers": [name for name in known if chosen.shows(name)],
            "and_later_ones": chosen.but,
            "from_when": _FROM_WHEN,
        }

    async def _known(
        self, permit: Permit, named: frozenset[UpstreamId] = frozenset()
    ) -> Mapping[UpstreamId, Known]:
        """Return all servers that the principal may know of, whatever it has chosen, in order.

        Raises:
            BadCommand: One of `named` is not among them; whether it exists is not told.

        """
        call = permit.call
        everyone = replace(permit.principal, servers=EVERY_SERVER)
        tools, prompts, templates = [
            await self._offers.of(call, everyone, kind) for kind in _LISTED
        ]
        seen = {offer.target.server for offer in (*tools, *prompts, *templates)}
        seen |= await self._offers.readable(call, everyone)
        of: dict[UpstreamId, list[Document]] = {server: [] for server in seen}
        for one in tools:
            of[one.target.server].append(one.definition)
        known = {}
        for server in sorted(seen):
            itself = self._offers.itself(server, call.profile)
            if itself is not None:
                known[server] = Known(
                    name=server,
                    itself=itself,
                    tools=tuple(of[server]),
                    prompts=sum(one.target.server == server for one in prompts),
                )
        unknown = sorted(named - known.keys())
        if unknown:
            raise BadCommand(
                f"there is no server {', '.join(unknown)}: search_available_servers lists those "
                "that you may use"
            )
        return known

    async def _record(self, permit: Permit, step: str, *, verdict: str, code: str) -> None:
        call, principal = permit.call, permit.principal
        fields = {
            "principal": principal.recorded,
            "client": principal.client_id,
            "endpoint": call.endpoint,
            "method": call.message.method,
            "target": call.message.params["name"],
            "token_id": principal.token_id,
            "source_ip": call.source_ip,
            "run": permit.run.id,
            "parent": permit.decision.id,
            "verdict": verdict,
            "code": code,
            "reasons": [{"code": code, "message": step}],
        }
        await self._audit.append(
            AuditRecord(
                kind=RecordKind.CONFIG, time=self._clock(), id=self._new_id(), fields=fields
            )
        )


def _fitting(query: str, known: Iterable[Known]) -> list[Known]:
    """Return the servers that fit, the best first."""
    ranked = ((fits(query, one.name, one.itself, one.tools), one) for one in known)
    return [one for score, one in sorted(ranked, key=_by_score) if score > 0]


def _by_score(ranked: tuple[int, Known]) -> tuple[int, UpstreamId]:
    return -ranked[0], ranked[1].name


def _every(_: Selection) -> Selection:
    return EVERY_SERVER


def _none(_: Selection) -> Selection:
    return Selection(names=frozenset(), but=False)


def _worded(tool: str, named: frozenset[UpstreamId]) -> str:
    return f"{tool.removesuffix('_server')} {', '.join(sorted(named))}"
