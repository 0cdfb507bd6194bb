"""Code mode: a program instead of fifty calls, and each of its calls an ordinary one."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import orjson

from gateway.builtin.broker import Carrier, Named, ScriptBroker
from gateway.builtin.extract import TOOL as EXTRACT
from gateway.builtin.extract import Extractor, Models, answered, asking, only_extracts
from gateway.builtin.late_calls import LateCalls
from gateway.builtin.offers import Offer, Offers, Sight
from gateway.builtin.run_code import (
    ONLY_PYTHON,
    TARGET,
    Wanted,
    definition_of,
    granted,
    own_pins,
    told,
    wanted,
)
from gateway.domain._value import value
from gateway.domain.calls import Permit
from gateway.domain.identity import Principal
from gateway.domain.nodes import amount
from gateway.domain.programs import (
    Language,
    Program,
    ProgramResult,
    ProgramStatus,
    ProgramTool,
    Redact,
)
from gateway.domain.scripts import Script, ScriptId, digest_of
from gateway.domain.tools import Kind
from gateway.errors import BadCommand, Denied, RateLimited
from gateway.ports import Clock
from gateway.ports.sandbox import Engine
from gateway.ports.scripts import Parked, ScriptStore
from gateway.turns import QUICK_NODES, finished
from gateway.wire.jsontext import WireLimits

_SETTLED_S: Final = 60.0
"""How much longer than it may take a program's calls are let through: nothing of it is left then."""
_MOST_SHOWN: Final = 64
"""Lists of tools that are kept as programs know them: stubs are made once for each."""


_NO_ANSWERS: Final[Mapping[int, Mapping[str, Any]]] = {}


@value
class _Known:
    """A tool as the program's author has seen it."""

    name: str
    digest: str


class CodeMode:
    """Runs programs for whoever may, and keeps those that wait for a person."""

    def __init__(
        self,
        *,
        offers: Offers,
        sight: Sight,
        engine: Engine,
        scripts: ScriptStore,
        carrier: Callable[[], Carrier],
        limits: WireLimits,
        redact: Redact,
        turns: Callable[[str], AbstractContextManager[None]],
        waits_s: float,
        clock: Clock,
        new_id: Callable[[], str],
        models: Models | None = None,
        languages: Sequence[Language] = ONLY_PYTHON,
        tasks: bool = False,
        absent: Callable[[Principal, float], str] = lambda _principal, _since: "",
    ) -> None:
        """`carrier` gives the endpoint in front of all servers, which is made after this.

        `absent` says who of a principal was not there at any time since then: what waits goes on for
        nobody who is another one by now, with the yes that it may hold.
        `turns` holds a person, by `Principal.person`, to as many programs at once as they may run.
        A program waits for people `waits_s` seconds at most. `redact` takes secrets out of texts.
        With `models` programs can have that of their client read a text. `engine` runs those
        that are written in one of `languages`. `tasks`: whether any server may answer late.
        """
        self._late = LateCalls() if tasks else None
        self._models = models
        self._languages = languages
        self._offers = offers
        self._sight = sight
        self._pins = own_pins(extracts=models is not None, languages=languages)
        self._engine = engine
        self._scripts = scripts
        self._carrier = carrier
        self._limits = limits
        self._redact = redact
        self._turns = turns
        self._waits_s = waits_s
        self._clock = clock
        self._new_id = new_id
        self._absent = absent
        self._shown: dict[int, tuple[Sequence[Offer], tuple[ProgramTool, ...]]] = {}

    async def withheld(self, permit: Permit) -> frozenset[str]:
        """Return which of our names the caller of `permit` may not know of, by policy.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        pin = self._pins[TARGET, permit.call.profile]
        (seen,) = await self._sight.of(permit.call, permit.principal, [(TARGET, pin)])
        return frozenset() if seen else frozenset({TARGET.name})

    @property
    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """What is listed of it."""
        extracts = self._models is not None
        return (definition_of(extracts=extracts, languages=self._languages),)

    async def answer(self, permit: Permit) -> Mapping[str, Any]:
        """Run a program, or let one go on, and return what became of it.

        Raises:
            RateLimited: This principal, or everybody, runs as many as they may.
            PolicyUnavailable: Nobody knows which tools may be shown.
            AuditUnavailable: What it may call could not be filed.

        """
        try:
            params = permit.call.message.params
            asked = wanted(params.get("arguments") or {}, self._languages)
            read = None if self._models is None else answered(params)
            if read is not None:
                return await self._resumed(
                    permit, _same(asked, ScriptId(read[0])), read[1], asked.code
                )
            if asked.resume is not None:
                return await self._resumed(permit, asked.resume)
            return await self._begun(permit, asked)
        except BadCommand as error:
            text = f"{error.public[:1].upper()}{error.public[1:]}. Nothing was run."
            return {"content": [{"type": "text", "text": text}], "isError": True}

    async def _begun(self, permit: Permit, asked: Wanted) -> Mapping[str, Any]:
        grants = asked.grants
        offers = await self._offers.of(permit.call, permit.principal, Kind.TOOL)
        tools = self._tools(offers)
        if asked.language is not Language.PYTHON:
            # What waits for its client's model is kept meanwhile, and only Python can be.
            tools = tuple(tool for tool in tools if tool != EXTRACT)
        program = Program(code=asked.code, tools=tools, language=asked.language)
        named = {one.name: (one.target.server, one.target.name) for one in offers}
        now = self._clock()
        script = Script(
            id=ScriptId(f"s_{self._new_id()}"),
            principal=permit.principal.key,
            person=permit.principal.person,
            sha256=program.sha256,
            grants=None if grants is None else granted(grants, named, _approval(permit)),
            most=None,  # the sandbox counts
            parent=permit.decision.id,
            began=now,
            expires_at=now + self._waits_s + _SETTLED_S,
            run=permit.run.id,
        )
        read = {one.name: str(one.definition.digest) for one in offers}
        extractor = self._extractor(permit, {})
        broker = self._broker(permit, script, offers, read, extractor)
        who = permit.principal.person
        # The turn first: whoever has none files nothing.
        with self._turns(who):
            try:
                await self._scripts.begin(script)
                work = self._engine.run(program, broker, redact=self._redact)
                result = await self._unless_ended(script.id, work)
            except BaseException:
                # Also of what nobody waits for: it may be filed all the same.
                await self._scripts.end(script.id)
                raise
        return await self._ended(script, program, result, read, extractor, who=who)

    async def _resumed(
        self,
        permit: Permit,
        id_: ScriptId,
        answers: Mapping[int, Mapping[str, Any]] = _NO_ANSWERS,
        code: str = "",
    ) -> Mapping[str, Any]:
        """Let a program go on, with what its client's model has answered.

        With `code` only if that is its text: policy was asked about a run of it.
        """
        # First, so that nothing was taken out yet where this fails.
        offers = await self._offers.of(permit.call, permit.principal, Kind.TOOL)
        parked = await self._taken_out(permit, id_, code)
        who, nodes = permit.principal.person, amount(parked.snapshot, QUICK_NODES)
        try:
            code, read, asked, snapshot = await finished(who, nodes, _unpacked, parked.snapshot)
            # Of what nobody was asked nothing was decided on, and nothing is on record.
            given = {seq: said for seq, said in answers.items() if seq in asked}
            extractor = self._extractor(permit, given)
            program = Program(code=code, tools=self._tools(offers))
            # A call that a person said no to is refused when it is made again.
            with self._turns(who):
                work = self._engine.resume(
                    snapshot,
                    program,
                    self._broker(permit, parked.script, offers, read, extractor),
                    refused={},
                    redact=self._redact,
                )
                result = await self._unless_ended(id_, work)
        except RateLimited:
            await self._scripts.park(parked)
            raise
        except ValueError as error:
            await self._scripts.end(id_)
            raise BadCommand("the run cannot go on: it was kept by another version") from error
        except BaseException:
            await self._scripts.end(id_)
            raise
        return await self._ended(parked.script, program, result, read, extractor, who=who)

    async def _unless_ended(
        self, id_: ScriptId, work: Coroutine[Any, Any, ProgramResult]
    ) -> ProgramResult:
        """Return what becomes of a program, if nobody ends it meanwhile; it has stopped either way.

        Raises:
            Denied: Somebody has.

        """
        task = asyncio.ensure_future(work)
        with self._scripts.watched(id_, task.cancel):
            try:
                return await task
            except asyncio.CancelledError:
                waiting = asyncio.current_task()
                if waiting is None or waiting.cancelling():
                    raise
                ended = ("script_ended", "somebody ended it")
                raise Denied("this program was ended while it ran", reasons=[ended]) from None

    async def _taken_out(self, permit: Permit, id_: ScriptId, code: str) -> Parked:
        """Return a program that waited in the run of `permit`: no other knows what it has seen."""
        now = self._clock()
        script = self._scripts.find(id_, now=now)
        parked = None
        whose = permit.run.id, permit.principal.key
        mine = script is not None and (script.run, script.principal) == whose
        if script is not None and mine and self._absent(permit.principal, script.began):
            await self._scripts.end(id_)
            mine = False
        if script is not None and mine and (not code or script.sha256 == digest_of(code)):
            taking = asyncio.ensure_future(self._scripts.unpark(id_, permit.principal.key, now=now))
            try:
                parked = await asyncio.shield(taking)
            except asyncio.CancelledError:
                if await taking is not None:
                    await self._scripts.end(id_)  # it was taken out all the same, for nobody
                raise
        if parked is None:
            raise BadCommand(
                f"no run {id_[:200]!r} of yours waits in this conversation; it has ended, or goes on "
                "already"
            )
        return parked

    async def _ended(
        self,
        script: Script,
        program: Program,
        result: ProgramResult,
        read: Mapping[str, str],
        extractor: Extractor | None,
        *,
        who: str,
    ) -> Mapping[str, Any]:
        asked: Mapping[int, Any] = {}
        if extractor is not None and only_extracts(result.waits_for):
            asked = extractor.asked
        if result.status is ProgramStatus.PARKED:
            nodes, kept = amount(result.parked, QUICK_NODES), (program.code, read, asked)
            try:
                snapshot = await finished(who, nodes, _packed, *kept, result.parked)
            except BaseException:
                await self._scripts.end(script.id)
                raise
            await self._scripts.park(Parked(script=script, snapshot=snapshot))
        else:
            await self._scripts.end(script.id)
        if asked:
            return asking(asked, script.id)
        return told(result, script.id)

    def _tools(self, offers: Sequence[Offer]) -> tuple[ProgramTool, ...]:
        """Return what a program can know of what is offered; the same tuple for the same offers."""
        place = id(offers)
        if place not in self._shown:
            while len(self._shown) >= _MOST_SHOWN:
                del self._shown[next(iter(self._shown))]
            # With the offers, which keeps the place theirs.
            more = () if self._models is None else (EXTRACT,)
            self._shown[place] = (offers, (*map(program_tool, offers), *more))
        return self._shown[place][1]

    def _extractor(
        self, permit: Permit, answers: Mapping[int, Mapping[str, Any]]
    ) -> Extractor | None:
        return None if self._models is None else Extractor(permit, self._models, answers)

    def _broker(
        self,
        permit: Permit,
        script: Script,
        offers: Sequence[Offer],
        read: Mapping[str, str],
        extractor: Extractor | None,
    ) -> ScriptBroker:
        """Return what carries out the calls of a program whose author has `read` these digests."""
        tools: dict[tuple[str, str], Named] = {
            (one.target.server, one.target.name): _Known(name=one.name, digest=read[one.name])
            for one in offers
            if one.name in read
        }
        return ScriptBroker(
            permit,
            script,
            tools,
            carrier=self._carrier(),
            limits=self._limits,
            new_id=self._new_id,
            extractor=extractor,
            late=self._late,
        )


def _same(asked: Wanted, id_: ScriptId) -> ScriptId:
    """Return the run that goes on, if the call that says so asks for that run.

    Raises:
        BadCommand: It asks for another one.

    """
    if asked.resume not in {None, id_}:
        raise BadCommand("the answers are for another run")
    return id_


def program_tool(offer: Offer) -> ProgramTool:
    """Return what a program can know of a tool that its author is offered."""
    content = offer.definition.content
    schema, output = content.get("inputSchema"), content.get("outputSchema")
    annotations = content.get("annotations")
    description = content.get("description")
    return ProgramTool(
        server=offer.target.server,
        name=offer.target.name,
        description=description if isinstance(description, str) else "",
        input_schema=schema if isinstance(schema, dict) else {},
        output_schema=output if isinstance(output, dict) else None,
        read_only=isinstance(annotations, dict) and annotations.get("readOnlyHint") is True,
    )


def _approval(permit: Permit) -> Mapping[str, Any] | None:
    """Return a person's yes to this very call, which they gave with its grants before them."""
    found = None if permit.access is None else permit.access.asked.get("approval")
    return found if isinstance(found, Mapping) else None


def _packed(code: str, read: Mapping[str, str], asked: Collection[int], snapshot: bytes) -> bytes:
    text = code.encode(errors="surrogatepass").hex()
    # The snapshot as it is: to spell it in JSON takes a hundred times as long, all in one turn.
    return b"\n".join((orjson.dumps({"code": text, "read": read, "asked": [*asked]}), snapshot))


def _unpacked(kept: bytes) -> tuple[str, Mapping[str, str], Collection[int], bytes]:
    header, _, snapshot = kept.partition(b"\n")
    content = orjson.loads(header)
    code = bytes.fromhex(content["code"]).decode(errors="surrogatepass")
    return code, content["read"], frozenset(content["asked"]), snapshot
