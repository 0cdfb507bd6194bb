"""Stages 10 and 11 on one message: what an upstream said becomes what the caller may see."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from gateway.domain._value import value
from gateway.domain.calls import AccessRequest, Form, Permit
from gateway.domain.decisions import Decision, Duty, Obligation
from gateway.domain.flow import Run, Source
from gateway.domain.labels import BOTTOM, Integrity, Label
from gateway.domain.nodes import most_nodes, weight
from gateway.domain.tools import OWN, Kind
from gateway.errors import AuditUnavailable, GatewayError, UpstreamFailed
from gateway.flow.carried import Carried
from gateway.flow.content import SAID
from gateway.flow.given import resources_in
from gateway.flow.provenance import Provenance
from gateway.flow.reading import Answered
from gateway.flow.results import said_in
from gateway.pins.ui import is_ui
from gateway.pipeline.duties import Duties
from gateway.pipeline.filter import Carrier, meet
from gateway.pipeline.greetings import Greetings
from gateway.pipeline.labels import Labeller, decided_label, is_clean, read_content, source_of
from gateway.pipeline.late import LateBeginnings
from gateway.pipeline.lists import ListFilter
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.prompts import Prompts
from gateway.pipeline.rounds import GIVEN, Rounds
from gateway.pipeline.rules import Rules
from gateway.pipeline.schemas import CHECKING, Approved, Schemas, turns_of
from gateway.pipeline.sensitive import MASKING, Edge
from gateway.pipeline.serverside import LINKS, ServerRequests
from gateway.pipeline.trail import Trail
from gateway.turns import QUICK_NODES, finished
from gateway.wire.bare_notices import bare_params, news_of, speaks
from gateway.wire.bare_results import bare_error, bare_greeting, unread
from gateway.wire.bounds import within
from gateway.wire.operations import Operation, Sender, find
from gateway.wire.outgoing import said, words
from gateway.wire.rounds import ASKING, STATE
from gateway.wire.server_message import ServerMessage, with_items, with_member
from gateway.wire.tasks import is_older_task

_GREETINGS = frozenset({"initialize", "server/discover"})
"""Methods whose result says what the server itself is."""
_MOST_ITEMS = 10_000
"""Of one page of a list: as many as one server can have pins of a kind."""
_UNVOUCHED = Label(integrity=Integrity.UNTRUSTED, confidentiality=BOTTOM.confidentiality)
_MEMBER = {Carrier.RESULT: "result", Carrier.ERROR: "error", Carrier.NOTIFICATION: "params"}
Sealed: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_REWRITES = frozenset({Duty.REDACT, Duty.TRUNCATE, Duty.DROP_STRUCTURED})


def require_answer(permit: Permit, message: ServerMessage) -> None:
    """Return if `message` answers the permit's own request.

    Raises:
        UpstreamFailed: It answers another one, or nothing. 1 and "1" are different ids (JSON-RPC
            2.0 section 4).

    """
    asked = permit.call.message.id
    if (
        message.form is not Form.RESPONSE
        or message.id != asked
        or type(message.id) is not type(asked)
    ):
        raise UpstreamFailed(
            "the upstream server answered another request", detail=f"id {message.id!r}"
        )


class Release:
    def __init__(
        self,
        *,
        rules: Rules,
        lists: ListFilter,
        greetings: Greetings,
        labels: Labeller,
        memory: ProvenanceMemory,
        requests: ServerRequests,
        duties: Duties,
        schemas: Schemas,
        prompts: Prompts,
        beginnings: LateBeginnings,
        seal_key: bytes,
    ) -> None:
        self._rules = rules
        self._lists = lists
        self._greetings = greetings
        self._labels = labels
        self._memory = memory
        self._requests = requests
        self._duties = duties
        self._schemas = schemas
        self._prompts = prompts
        self._beginnings = beginnings
        self._rounds = Rounds(given=memory.given, seal_key=seal_key)

    async def response(
        self, permit: Permit, message: ServerMessage, trail: Trail, *, asked: bool = False
    ) -> bytes:
        """Return the response that the caller may see: the bytes that came, where nothing changes it.

        What it says has raised the run by then. If it `asked`, each of its questions was judged by
        itself already, and what is left is what they say together.

        Raises:
            UpstreamFailed: It answers another request than the permit's.
            GatewayError: Policy refuses the result, or cannot say.

        """
        require_answer(permit, message)
        if permit.call.server == OWN and permit.access is None:
            return message.data  # made of what policy lets the principal see, and of nothing else
        result = message.result
        if result is None:
            return await self.error(permit, message, trail)
        if permit.access is not None:
            return await self._content(permit, permit.access, message, result, trail, asked=asked)
        operation = find(Sender.CLIENT, permit.call.message.method)
        if operation is not None and operation.lists is not None:
            return await self._list(permit, operation, message, trail)
        greets = permit.call.message.method in _GREETINGS
        bare = bare_greeting(result) if greets else self._greetings.framed(permit.call, message)
        if told := unread(bare):
            run = await self._labels.now(permit)
            await self._keep(permit, run, len(message.data), listed=[told])
        if greets:
            return await self._greetings.served(permit, message, bare)
        await self._raise_for(permit, result, len(message.data), trail)
        return message.data if bare == result else with_member(message, "result", bare)

    async def error(self, permit: Permit, message: ServerMessage, trail: Trail) -> bytes:
        """Return an error with the call's obligations met: its text is as much the upstream's."""
        error = await self._requests.links(permit, message.error or {})
        if permit.access is None:
            return self._bare_error(message, error)
        expected = await self._expected(permit, permit.access)
        who, size = permit.principal.person, len(message.data)
        read = await read_content(who, most_nodes(size), error, trail)
        source = source_of(permit, expected.label.join(read), trail.intent_id)
        run = await self._raised(permit, source, trail)
        decision = await self._judged(
            permit, permit.access, run, {"error": error}, trail, size=size
        )
        # What it repeats of a record is found again, but nothing in it was promised an id.
        said = {"structuredContent": error}
        kept = _answered(permit, said, expected, decision, source=source, failed=True, size=size)
        await self._keep(permit, run, size, kept)
        duties = (*permit.decision.obligations, *decision.obligations)
        return await self._apart(permit, duties, message, Carrier.ERROR, error)

    def _bare_error(self, message: ServerMessage, error: Mapping[str, Any]) -> bytes:
        """Return an error to what nobody decided about, in our own words.

        Clients act on which error it is, and on the status that it comes with. Hosts ask for lists
        when they connect, and servers refuse those that they have not: what they would say to that
        is worth no label. Links that the user is sent to have been judged, and raised one.
        """
        told, data = bare_error(error), error.get("data")
        if isinstance(data, dict) and isinstance(links := data.get(LINKS), list):
            told = {**told, "data": {**told.get("data", {}), LINKS: links}}
        return with_member(message, "error", told)

    async def notification(
        self,
        permit: Permit,
        message: ServerMessage,
        trail: Trail,
        edge: Edge,
        *,
        beside: bool = False,
    ) -> bytes:
        """Return a notification with every duty met on what it carries; nothing, if it is refused.

        `edge` is where the one before it ended, `beside` whether it came on no answer's own stream.
        Only what the protocol has a place for is in it, and what it says has raised the run by then.
        """
        if permit.call.server != OWN:
            message = await self._bare_notice(permit, message)
        params = message.params
        label = None
        if permit.access is not None:
            # The run may have ended, or been relabelled, since the stream began: this comes into what there is now.
            await self._labels.raise_for_result(permit, trail.intent_id)
            label = self._labels.of_result(permit)
        if (beside or permit.access is None) and self._speaks(permit, message):
            # Whichever call is under way, it is not known to be what its server speaks of.
            await self._labels.raise_for_server(permit, message.method, trail.intent_id)
            label = self._rules.servers[permit.call.server].default.join(label or BOTTOM)
        else:
            await self._note_news(permit, message)
        await self._raise_for(permit, params, len(message.data), trail, label)
        if not params or (permit.call.server == OWN and permit.access is None):
            return message.data
        try:
            decision = await self._judged_beside(permit, message, trail, edge)
            duties = (*permit.decision.obligations, *decision.obligations)
            carrier, before = Carrier.NOTIFICATION, edge.moved(params)
            return await self._apart(permit, duties, message, carrier, params, before=before)
        except AuditUnavailable:
            raise
        except GatewayError as error:
            # The call goes on without it; that it was withheld is said once in its record.
            trail.withheld(message.method, error)
            return b""

    async def _note_news(self, permit: Permit, message: ServerMessage) -> None:
        """Note a resource that has changed as if listed: given out in another run, it is shown in this one now."""
        uri = news_of(message.method, message.params, permit.call.message)
        if uri and permit.call.server != OWN:
            now = await self._labels.now(permit)
            await self._keep(permit, now, len(message.data), listed=[{"uri": uri}])

    async def _bare_notice(self, permit: Permit, message: ServerMessage) -> ServerMessage:
        params, who, nodes = message.params, permit.principal.person, weight(message.data)
        bare = bare_params(message.method, params, permit.call.message)
        if bare is params:
            return message
        data = await finished(who, nodes, with_member, message, "params", bare)
        return replace(message, content={**message.content, "params": bare}, data=data)

    def _speaks(self, permit: Permit, message: ServerMessage) -> bool:
        """Whether it is a word of the server's; what we say by ourselves names what is shown anyway."""
        server = permit.call.server
        gave = partial(self._memory.given.has, server) if server != OWN else bool
        return speaks(message.method, message.params, permit.call.message, gave=gave)

    async def _judged_beside(
        self,
        permit: Permit,
        message: ServerMessage,
        trail: Trail,
        edge: Edge,
    ) -> Decision:
        """Judge what a server says beside its answer, as a result of the call, or of none."""
        method, params = message.method, message.params
        run = await self._labels.now(permit)
        question = (
            self._requests.question(permit, method, params, run)
            if permit.access is None
            else permit.access.asked
        )
        said = {"notification": {"method": method, "params": params}}
        size = len(message.data)
        decision = await self._duties.asked(permit, question, said, run, size=size, edge=edge)
        await self._duties.require(permit, decision, f"{method}|result", trail.intent_id)
        return decision

    async def _content(
        self,
        permit: Permit,
        access: AccessRequest,
        message: ServerMessage,
        result: Mapping[str, Any],
        trail: Trail,
        *,
        asked: bool,
    ) -> bytes:
        """Judge a result (policy's phase `result`), remember it, and meet what was asked of it."""
        is_read = permit.call.message.method == "resources/read"
        match result.get("resultType", "complete"):
            case "complete" if "task" in result and is_older_task(result):
                raise UpstreamFailed(
                    "the upstream server's answer is late, and nobody has asked for that",
                    detail="a task of 2025-11-25",
                )
            case "complete" if is_read and is_ui(access.target.name):
                await self._lists.require_interface(permit, access.target.name, result)
            case "complete" | "input_required":
                pass
            case "task" if self._beginnings.may_begin(permit):
                told = await self._beginnings.begun(permit, access, result, trail)
                return with_member(message, "result", told)
            case other:
                # A task is for whoever says that they can follow one; of any other type nobody knows
                # what it means (MCP 2026-07-28, result types).
                raise UpstreamFailed(
                    "the upstream server's answer is of an unknown type", detail=str(other)[:100]
                )
        if not asked and not ASKING.isdisjoint(result):
            result = await self._requests.inputs(permit, result)
        size, expected = len(message.data), await self._expected(permit, access)
        late = permit.late
        led = late is not None and self._memory.may_tell_of_led(permit, late)
        label, wary = await self._label(permit, access, expected, trail, result=result, size=size)
        source = source_of(permit, label, trail.intent_id)
        run = await self._raised(permit, source, trail)
        decision = await self._judged(permit, access, run, result, trail, size=size, wary=wary)
        failed = result.get("isError") is True
        kept = _answered(
            permit, result, expected, decision, source=source, failed=failed, size=size
        )
        await self._keep(permit, run, size, kept, given=result, led=led)
        duties = (*permit.decision.obligations, *decision.obligations)
        sealed = partial(self._rounds.sealed, permit) if STATE in result else None
        return await self._apart(permit, duties, message, Carrier.RESULT, result, sealed=sealed)

    async def _judged(
        self,
        permit: Permit,
        access: AccessRequest,
        run: Run,
        result: Mapping[str, Any],
        trail: Trail,
        *,
        size: int,
        wary: bool = True,
    ) -> Decision:
        """Return what policy says of a result; what it adds to the label is in the run by then.

        Unless it is `wary`, nothing of a sensitive class can stand there.

        Raises:
            GatewayError: Policy refuses the result, or cannot say.

        """
        decision = await self._duties.asked(permit, access.asked, result, run, size=size, wary=wary)
        trail.result_decision(decision)
        raised = await self._duties.require(
            permit, decision, f"{access.target.approved_name}|result", trail.intent_id
        )
        if raised is not None:
            trail.label(raised.label)
        return decision

    async def _label(
        self,
        permit: Permit,
        access: AccessRequest,
        expected: "_Expected",
        trail: Trail,
        *,
        result: Mapping[str, Any],
        size: int,
    ) -> tuple[Label, bool]:
        """Return what this one result carries: what is configured, and what it turned out to be.

        And whether anything of a sensitive class may stand there, as both is told by its text.

        For one that is not what the approved definition says nobody vouches, whatever the
        configuration says of the tool.

        Raises:
            GatewayError: Such results are withheld; the run is raised by then.

        """
        who, nodes = permit.principal.person, most_nodes(size)
        read, codes, wary = await finished(who, nodes, self._duties.read, result)
        for code in codes:
            trail.reasons(code, SAID[code])
        label = expected.label.join(read)
        problems: tuple[str, ...] = ()
        try:
            if access.target.kind is Kind.TOOL:
                approved, typed = expected.approved, expected.typed
                if nodes <= QUICK_NODES and approved.promises:
                    nodes = nodes if self._schemas.result_fits(approved, result, size) else CHECKING
                if approved.promises or result.get("structuredContent") is not None:
                    check = partial(self._schemas.result_problems, approved, result, typed, size)
                    problems = await finished(who, nodes, check)
            elif access.target.kind is Kind.PROMPT:
                problems = await self._prompts.problems(access, result, who=who, nodes=nodes)
        except GatewayError:
            # Why it is withheld may tell something of it: the run has read it before that is told.
            await self._raised(permit, source_of(permit, label, trail.intent_id), trail)
            raise
        for problem in problems:
            trail.reasons("invalid_result", problem)
        return label.join(_UNVOUCHED) if problems else label, wary

    async def _raise_for(
        self,
        permit: Permit,
        content: Mapping[str, Any],
        size: int,
        trail: Trail,
        expected: Label | None = None,
    ) -> None:
        """Raise the run to what the text of `content` carries by itself, and have it found again.

        It answers no call of a tool's. The run is raised to what is `expected` of it by then; where
        nothing is, as nobody has a word in it, it is noted for what it carries alone.
        """
        read = await read_content(permit.principal.person, most_nodes(size), content, trail)
        if read != BOTTOM:
            await self._raised(permit, source_of(permit, read, trail.intent_id), trail)
        if expected is not None or read != BOTTOM:
            expected = expected or BOTTOM
            source = source_of(permit, expected.join(read), trail.intent_id)
            run, level = await self._labels.now(permit), expected.confidentiality
            await self._memory.hear(permit, run, content, size=size, source=source, level=level)

    async def _raised(self, permit: Permit, source: Source, trail: Trail) -> Run:
        """Return the run, durably raised to what `source` is labelled."""
        run = await self._labels.raise_to(permit, source)
        trail.label(run.label)
        return run

    async def _keep(
        self,
        permit: Permit,
        run: Run,
        size: int,
        answered: Answered | None = None,
        *,
        given: Mapping[str, Any] | None = None,
        listed: Sequence[Mapping[str, Any]] = (),
        led: bool = False,
    ) -> None:
        """Keep what was `answered` or `listed`, and what its server gave out: `size` bytes of all.

        What else its run has seen takes nothing from what it proves, unless it was `led` to that.
        """

        def keep(provenance: Provenance) -> None:
            # What a program made of the answers to its calls, each of which is remembered by itself,
            # proves nothing about where it may go.
            if answered is not None and permit.call.server != OWN:
                elsewhere = permit.late is None and run.id != permit.run.id
                provenance.remember(answered, led=led or elsewhere)
            if listed:
                provenance.lists(listed)
            if given is not None:
                self._note_given(permit, provenance, given)

        octets = size + len(permit.call.message.body)
        who = permit.principal.person
        await self._memory.with_it(run, who, octets, keep, looks=False, must=True)

    def _note_given(self, permit: Permit, written: Provenance, result: Mapping[str, Any]) -> None:
        """Note what the server gives out to be brought back to it.

        A resource that the call itself named, or that a call of this run which may have been led
        wrote somewhere, is not the server's own: bringing it back would carry what was put into it.
        """
        server, given = permit.call.server, self._memory.given
        if not GIVEN.isdisjoint(result):
            self._rounds.note(permit, result)
        named = [uri for uri in resources_in(result) if not given.has(server, uri)]
        if not named:
            return
        # Of what is no tool, its name is the caller's choice, too.
        carried = Carried(said_in(said(permit.call.message)))
        for uri in named:
            if not carried.has(uri) and not written.wrote(uri):
                given.add(server, uri)

    async def _expected(self, permit: Permit, access: AccessRequest) -> "_Expected":
        approved = self._schemas.of(access.pinned)
        if not approved.is_ready:
            await finished(turns_of(access.target), approved.nodes, approved.make_ready)
        typed: tuple[str, ...] = ()
        if access.target.kind is Kind.TOOL:
            rule = self._rules.servers[access.target.server].tool(access.target.name)
            typed = (*rule.typed, *approved.typed)
        label = self._labels.of_result(permit)
        return _Expected(label=label, typed=typed, approved=approved)

    async def _apart(
        self,
        permit: Permit,
        duties: tuple[Obligation, ...],
        message: ServerMessage,
        carrier: Carrier,
        content: Mapping[str, Any],
        *,
        sealed: Sealed | None = None,
        before: str = "",
    ) -> bytes:
        """Return `message` saying `content` with `duties` met: its own bytes, if they ask nothing."""
        who, member = permit.principal.person, _MEMBER[carrier]
        masker = self._duties.masker(permit, duties) if duties else None
        if masker is None and not any(one.duty in _REWRITES for one in duties):
            told = content if sealed is None else sealed(content)
            if told is message.content.get(member):
                return message.data
            return await finished(who, weight(message.data), with_member, message, member, told)
        nodes = weight(message.data) if masker is None else MASKING

        def rewritten() -> bytes:
            told = meet(duties, content, carrier, masker, before)
            return with_member(message, member, told if sealed is None else sealed(told))

        return await finished(who, nodes, rewritten)

    async def _list(
        self, permit: Permit, operation: Operation, message: ServerMessage, trail: Trail
    ) -> bytes:
        member, kind = operation.member, operation.lists
        items = (message.result or {}).get(member or "")
        if member is None or kind is None or not isinstance(items, list):
            raise UpstreamFailed("the upstream server's list is no list")
        if len(items) > _MOST_ITEMS:
            raise UpstreamFailed("the upstream server's list is too long", detail=str(len(items)))
        _require_progress(permit.call.message.params, message.result or {})
        masker_for = partial(self._duties.masker, permit)
        shown = await self._lists.show(permit, kind, items, masker_for)
        trail.reasons("shown", f"{len(shown.items)} of {shown.offered} are shown")
        given = {**(message.result or {}), member: shown.items}
        frame = self._greetings.framed(permit.call, message, member)
        # What it says in its server's words alone: of resources all, and what stands around any list.
        around = [own] if (own := unread(frame, member)) else []
        listed = [*shown.items, *around] if kind is Kind.RESOURCE else around
        run = await self._labels.now(permit)
        await self._keep(permit, run, len(message.data), given=given, listed=listed)
        if kind is Kind.RESOURCE:
            # Definitions are shown as a person approved them; of resources nobody has seen any.
            await self._raise_for(permit, message.result or {}, len(message.data), trail)
        bare = replace(message, content={**message.content, "result": frame})
        nodes = most_nodes(len(message.data))
        return await finished(permit.principal.person, nodes, with_items, bare, member, shown.items)


@value
class _Expected:
    """What is known of an answer before anybody has read it."""

    label: Label
    """What it carries, by the configuration and by what was decided of its call."""
    typed: tuple[str, ...]
    """Where its identifiers are, as the configuration and the approved definition say."""
    approved: Approved


def _answered(
    permit: Permit,
    content: Mapping[str, Any],
    expected: _Expected,
    decision: Decision,
    *,
    source: Source,
    failed: bool,
    size: int,
) -> Answered:
    """Return what was answered as a source of later calls' values, labelled as it is by itself.

    It is what the `decision` about it raises, too; whatever else its text raises, it holds in places.
    """
    access, message, level = permit.access, permit.call.message, expected.label.confidentiality
    if decision.obligations:
        owed = decided_label(decision)
        source = replace(source, label=source.label.join(owed))
        level = max(level, owed.confidentiality)
    return Answered(
        source=source,
        effect=None if access is None else access.effect,
        arguments=said(message),
        said=words(message) if permit.is_of_its_run else {},
        content=content,
        octets=size + len(message.body),
        typed=() if failed else expected.typed,
        clean=is_clean(permit),
        failed=failed,
        level=level,
    )


def _require_progress(params: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Return if a list's next page is another one, and can be asked for.

    Raises:
        UpstreamFailed: It would be this page again, and so on for ever; or nobody may ask for it, as
            its name is longer than names are.

    """
    cursor = result.get("nextCursor")
    if cursor is None:
        return
    if not isinstance(cursor, str) or cursor == params.get("cursor"):
        raise UpstreamFailed("the upstream server's list does not end", detail=str(cursor)[:100])
    if not within(cursor):
        raise UpstreamFailed("the upstream server's list goes on under too long a name")
