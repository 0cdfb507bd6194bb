"""The endpoint in front of two simulated servers: everything real between the web and the wire."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.builtin import server_tools
from gateway.builtin.aggregate import Aggregate
from gateway.builtin.call_streams import CallStreams
from gateway.builtin.client_models import ClientModels
from gateway.builtin.code import CodeMode
from gateway.builtin.descriptions import Descriptions, Settings
from gateway.builtin.discovery import Chooser, Discovery
from gateway.builtin.followers import Followers
from gateway.builtin.mailboxes import Mailboxes
from gateway.builtin.meta_tools import DEFINITIONS
from gateway.builtin.notices import Notices
from gateway.builtin.offers import Offers
from gateway.builtin.run_code import ONLY_PYTHON, RULE, own_pins
from gateway.builtin.server import OwnServer
from gateway.builtin.servers import ServerTools
from gateway.builtin.shelf import Defer, Shelf, Shelving
from gateway.builtin.showing import Showing
from gateway.domain.calls import AGGREGATE, Call, Form, Permit
from gateway.domain.labels import ServerRule, ToolRule
from gateway.domain.tools import OWN, Kind, Profile, Target, UpstreamId
from gateway.flow.redaction import redaction
from gateway.pipeline import Pipeline
from gateway.pipeline.late_exchange import LateExchange
from gateway.pipeline.late_requests import LateRequests
from gateway.pipeline.streams import StreamRelay
from gateway.ports.sandbox import Engine
from gateway.sandbox.turns import Turns
from gateway.search.catalog import Catalog
from gateway.search.finder import Finder, Meaning
from gateway.storage.disclosures import Disclosures
from gateway.upstream.directory import Directory
from gateway.upstream.own_client import OwnClient
from gateway.wire.extensions import TASKS
from gateway.wire.jsontext import WireLimits
from gateway.wire.session import seal
from gateway.wiring.code import stub_of
from tests.pipeline.house import (
    KEY,
    MAIL,
    READ,
    TOOLS,
    TRUSTED,
    Answer,
    House,
    Seen,
    Server,
    result,
    text,
    whole,
)
from tests.storage.memory_people import MemoryDisclosureLedger

NOTES = UpstreamId("notes")
BOTH = frozenset(Profile)
FINDERS: list[Finder] = []
"""What every site searches with, until the test is over."""
OWN_TOOLS = [tool["name"] for tool in (*DEFINITIONS, *server_tools.DEFINITIONS)]
"""What is listed before everything else."""
EVERYTHING = Shelving(defer=Defer.OFF, window=200_000, share=3.0, clients={})

WHOLE = Settings(clients={}, guidance={})
"""Nobody has to read descriptions."""


class Site:
    """A gateway in front of `mail` and `notes`, and the clients' side of it."""

    def __init__(
        self,
        *,
        spoken: frozenset[Profile] = BOTH,
        page: int = 1_000,
        apart: bool = True,
        shelving: Shelving = EVERYTHING,
        described: Settings = WHOLE,
        meaning: Meaning | None = None,
        subagent: Chooser | None = None,
        strategy: str | None = None,
        priority: Sequence[str] = (),
        engine: Engine | None = None,
        extracts: bool = False,
        always_on: Collection[UpstreamId] = (),
        extensions: frozenset[str] = frozenset(),
    ) -> None:
        """`extensions` are approved for `mail`."""
        self.house = House(tools={"search": READ}, always_on=always_on, extensions=extensions)
        self.ended: list[tuple[UpstreamId, str]] = []
        self.alike: list[Sequence[str]] = []
        self.spoken = {MAIL: spoken, NOTES: spoken}
        self.servers = {MAIL: self.house.server, NOTES: Server()}
        self.house.identities[NOTES] = "https://notes.example:443/mcp"
        rules: dict[Any, Any] = dict(self.house.rules.servers)
        rules[NOTES] = ServerRule(default=TRUSTED, tools={"read": ToolRule()})
        vars_of(self.house.rules.servers).update(rules)
        vars_of(self.house.rules.extensions)[NOTES] = frozenset()
        vars_of(self.house.rules.extensions)[OWN] = extensions & {TASKS}
        self.away_until = 0.0
        """Until when somebody of each principal was not there."""
        self.levels: dict[str, str] = {}
        self.sessions = self.house.kept
        self.clients: dict[UpstreamId, OwnClient] = {}
        self.boxes = Mailboxes(new_nonce=self.house.new_id)
        self.calls = CallStreams(new_nonce=self.house.new_id)
        self.followers = Followers(
            boxes=self.boxes, sessions=self.sessions, leaving=self.clients.values
        )
        for name, server in self.servers.items():
            self.clients[name] = OwnClient(
                name,
                server,
                wire=WireLimits(),
                levels=self.levels,
                listeners=self.followers,
                apart=apart,
            )
        relay = self.house.pipeline
        self.offers = Offers(
            pins=self.house.pins,
            identities=Theirs(self.house.identities),
            sight=relay._admission._visibility,
            spoken=self.spoken.__getitem__,
            alarm=self.alike.append,
            portable=self.house.portable,
        )
        finder = Finder(meaning)
        FINDERS.append(finder)
        self.catalog = Catalog(finder)
        shelf = Shelf(shelving, known=self.offers.knows)
        sight = relay._admission._visibility
        self.disclosures = Disclosures(MemoryDisclosureLedger(), KEY)
        self.descriptions = Descriptions(
            described,
            offers=self.offers,
            scale=shelf,
            store=self.disclosures,
            clock=self.house.clock,
        )
        self.house.descriptions.gate = self.descriptions
        showing = Showing(
            offers=self.offers,
            shelf=shelf,
            descriptions=self.descriptions,
            pins=self.house.pins,
            sight=sight,
        )
        self.told_lists: list[tuple[str, list[str]]] = []
        self.notices = Notices(
            followers=self.followers,
            calls=self.calls,
            authenticator=self.house.gate,
            shown=showing.of,
            sees=showing.sees,
            described=self.descriptions.print_of,
            chosen=self.house.selections.seen_by,
            version=lambda: (self.house.pins.version, self.house.rule.digest),
            idle_s=900.0,
        )
        self.languages = getattr(engine, "languages", ONLY_PYTHON) if engine else ()
        self.models = ClientModels(new_id=self.house.new_id) if extracts else None
        programs = self._programs(engine, sight)
        own = OwnServer(
            offers=self.offers,
            shelf=shelf,
            descriptions=self.descriptions,
            tools=[
                Discovery(
                    offers=self.offers,
                    catalog=self.catalog,
                    descriptions=self.descriptions,
                    subagent=subagent,
                    strategy=strategy,
                    stub=None if engine is None else stub_of,
                    languages=self.languages,
                ),
                ServerTools(
                    offers=self.offers,
                    choices=self.house.choices,
                    always_on=frozenset(always_on),
                    runs=self.house.runs,
                    audit=self.house.audit,
                    end_sessions=lambda server, key: self.ended.append((server, key)),
                    clock=self.house.clock,
                    new_id=self.house.new_id,
                ),
                *programs,
            ],
            listed=lambda method, servers: self.told_lists.append((method, sorted(servers))),
            withheld=programs[0].withheld if programs else _nothing,
            models=self.models,
            tasks=TASKS in extensions,
            levels=self.levels,
            new_nonce=self.house.new_id,
            chosen=lambda key: self.house.choices.of(key).number,
            notices=self.notices,
            clock=self.house.clock,
            page=page,
        )
        self.aggregate = Aggregate(
            carrier=self._front(relay, {OWN: own, **self.clients}),
            offers=self.offers,
            limits=WireLimits(),
            new_id=self.house.new_id,
            notices=self.notices,
            priority=priority,
            brief=self.descriptions.are_possible,
        )

    def _programs(self, engine: Engine | None, sight: Any) -> list[CodeMode]:
        if engine is None:
            return []
        vars_of(self.house.rules.servers)[OWN] = RULE
        vars_of(self.house.rules.own).update(
            own_pins(extracts=self.models is not None, languages=self.languages)
        )
        self.house.identities[OWN] = ""
        return [
            CodeMode(
                offers=self.offers,
                sight=sight,
                engine=engine,
                scripts=self.house.scripts,
                carrier=lambda: self.aggregate,
                limits=WireLimits(),
                redact=redaction(["the-gateways-own-secret"]),
                turns=Turns(4).of,
                waits_s=3600.0,
                clock=self.house.clock,
                new_id=self.house.new_id,
                models=self.models,
                languages=self.languages,
                tasks=TASKS in self.house.rules.extensions[MAIL],
                absent=lambda _, since: "somebody" if since < self.away_until else "",
            )
        ]

    def _front(self, relay: Pipeline, reached: Mapping[UpstreamId, Any]) -> Pipeline:
        directory = Directory(reached, announce=self.house.server.announce)
        streams = relay._streams
        return Pipeline(
            admission=relay._admission,
            release=relay._release,
            streams=StreamRelay(
                release=streams._release,
                requests=streams._requests,
                labels=streams._labels,
                conversations=streams._conversations,
                upstreams=directory,
                audit=streams._audit,
                limits=WireLimits(),
                sessions=streams._sessions,
                require_going=streams._require_going,
            ),
            labels=relay._labels,
            begun=relay._begun,
            late=self._late(relay._late, directory),
            upstreams=directory,
            audit=self.house.audit,
            ledger=relay._ledger,
            challenge=relay._challenge,
            seal_key=KEY,
            limits=WireLimits(),
            clock=self.house.clock,
            new_id=self.house.new_id,
        )

    def _late(self, late: LateRequests, directory: Directory) -> LateRequests:
        return LateRequests(
            admission=late._admission,
            beginnings=late._beginnings,
            answers=late._answers,
            release=late._release,
            store=late._store,
            pins=late._pins,
            exchange=LateExchange(
                admission=late._admission,
                upstreams=directory,
                ledger=late._exchange._ledger,
                limits=WireLimits(),
            ),
            audit=late._audit,
            handles=late._handles,
            clock=late._clock,
        )

    async def show(
        self,
        server: UpstreamId,
        *definitions: Mapping[str, Any],
        kind: Kind = Kind.TOOL,
        profiles: frozenset[Profile] = BOTH,
        approve: bool = True,
    ) -> None:
        """Let a server be seen with these definitions, and approve them."""
        for profile in profiles:
            seen = await self.house.keeper.compare(server, profile, kind, definitions, "1")
            for manifest in seen if approve else ():
                await self.approve(manifest.target, profile)

    async def approve(self, target: Target, profile: Profile) -> None:
        pin = self.house.pins.find(target, profile)
        assert pin is not None
        expected = str(pin.observed.digest)
        await self.house.pins.approve(target, profile, expected=expected, by="bob", note="")

    async def furnish(self, profiles: frozenset[Profile] = BOTH) -> "Site":
        """Show and approve a few things of each server."""
        everything: dict[str, Any] = {"resources": {}, "prompts": {}, "tools": {}}
        for server in self.servers:
            item = {"name": str(server), "capabilities": everything}
            await self.show(server, item, kind=Kind.SERVER, profiles=profiles)
        await self.show(MAIL, *TOOLS.values(), profiles=profiles)
        await self.show(NOTES, tool("read"), tool("search"), profiles=profiles)
        await self.show(NOTES, {"name": "sum_up"}, kind=Kind.PROMPT, profiles=profiles)
        template = {"name": "note", "uriTemplate": "notes://{name}"}
        await self.show(NOTES, template, kind=Kind.TEMPLATE, profiles=profiles)
        return self

    def call(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> Call:
        """Make a request as the web does; `session` is our own session id, sealed here."""
        session = more.pop("session", None)
        made = self.house.request(method, params, endpoint=AGGREGATE, **more)
        who = self.house.gate.people[more.get("who") or "alice"]
        sealed = None if session is None else seal(KEY, OWN, who.key, session)
        return replace(made, server=OWN, session=sealed)

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> Seen:
        return await Seen.of(await self.aggregate.handle(self.call(method, params, **more)))

    async def names(
        self, method: str = "tools/list", member: str = "tools", **more: Any
    ) -> list[str]:
        """Return the names that a list shows."""
        listed = (await self.ask(method, **more)).json["result"][member]
        return [
            one.get("name" if member != "resourceTemplates" else "uriTemplate") for one in listed
        ]

    async def aclose(self) -> None:
        await self.calls.aclose()
        for client in self.clients.values():
            await client.aclose()


def vars_of(mapping: Any) -> dict[Any, Any]:
    """Return the dictionary that a test may still add to."""
    assert isinstance(mapping, dict)
    return mapping


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": name.title(),
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        **more,
    }


def speaks(
    answer: Answer = lambda permit: result(permit, text("hello")),
    *,
    session: str | None = "s1",
    capabilities: Mapping[str, Any] | None = None,
) -> Answer:
    """Answer as a server of the legacy revisions does, from its handshake on."""

    def answered(permit: Permit) -> Any:
        message = permit.call.message
        if message.form is not Form.REQUEST:
            return whole(b"", status=202)
        if message.method == "initialize":
            greeting = {
                "protocolVersion": "2025-11-25",
                "capabilities": dict(capabilities or {}),
                "serverInfo": {"name": "simulated", "version": "1"},
            }
            return result(permit, greeting, session=session)
        return answer(permit)

    return answered


def methods(server: Server) -> list[str]:
    """Return what reached a server, in order."""
    return [permit.call.message.method for permit in server.saw]


def sent(permit: Permit) -> Any:
    """Return the message that reached a server."""
    return json.loads(permit.call.message.body)


class Theirs(Mapping[UpstreamId, str]):
    """Whose definitions are whose, as it is at any time; without what we say of ourselves."""

    def __init__(self, identities: Mapping[UpstreamId, str]) -> None:
        self._identities = identities

    def __getitem__(self, server: UpstreamId) -> str:
        return self._identities[server]

    def __iter__(self) -> Iterator[UpstreamId]:
        return (server for server in self._identities if server != OWN)

    def __len__(self) -> int:
        return sum(1 for _ in self)


async def _nothing(permit: Permit) -> Collection[str]:
    return ()
