"""What calls and answers have of sensitive classes: told to policy, masked, and put back for the run's calls."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Final

from gateway.dlp.detector import Detector, TooMuch
from gateway.dlp.masking import DUTIES, Masker
from gateway.dlp.scanning import Finding, may_find, over_edges, scan, told
from gateway.dlp.values import TOKEN, RunValues, ValueMemory, keys_of
from gateway.domain.calls import AccessRequest, Call, Permit, as_written
from gateway.domain.decisions import Duty, Obligation
from gateway.domain.flow import FlowReview, Run
from gateway.domain.identity import Principal
from gateway.domain.labels import Label
from gateway.domain.nodes import most_nodes
from gateway.domain.question import NOTHING_FOUND
from gateway.domain.rewriting import RUNNING
from gateway.domain.tools import OWN, Pin
from gateway.errors import Denied
from gateway.flow.content import content_label, text_of
from gateway.pipeline.decide import Case
from gateway.turns import QUICK_NODES, finished, in_turn
from gateway.wire.extensions import with_params
from gateway.wire.param_headers import params_mirrored

_MOST_TOKENS: Final = 256
"""Different ones of one call."""
_LONGEST: Final = 1024 * 1024
"""Characters that all tokens of one call may stand for."""
MASKING: Final = QUICK_NODES + 1
"""How much work it is to mask something, whatever its size: never one for the event loop."""
_MIRRORED: Final = "mcp-param-"
_TAKES_TOKENS: Final = frozenset({"tools/call", "prompts/get"})
_NEVER_RECORDED: Final = frozenset({"credential", "password"})
_AT_ONCE: Final = 200
"""How much looking may take on the event loop, as `Work` counts it: some milliseconds."""
_BYTES_AT_ONCE: Final = 64
"""Bytes in which a text is looked for as quickly as one is read in another way."""
_TAIL: Final = 512
"""Characters of an event that the next one may go on from."""


class Edge:
    """Where the last event of a stream ended: what is cut in two there is whole for whoever reads both."""

    __slots__ = ("text",)

    def __init__(self) -> None:
        self.text = ""

    def moved(self, content: Mapping[str, Any]) -> str:
        """Move to the end of a notification with the params `content`, and return what it goes on from."""
        before = self.text
        self.text = (before + _running(content))[-_TAIL:]
        return before


class Sensitive:
    """Looks at calls and answers with one detector, and knows what servers gave to each run."""

    def __init__(self, detector: Detector, values: ValueMemory) -> None:
        self._detector = detector
        self._values = values
        self._tokens = {of.removeprefix("own:").upper() for of in detector.groups}

    async def restored(self, call: Call, principal: Principal, run: Run, pin: Pin) -> Call:
        """Return `call` with the values in its arguments for which tokens of its run stand.

        What was written stays known, for whatever a person or a record is shown. A call to the gateway
        itself keeps its tokens: a program that had the value could spell it out.

        Raises:
            Denied: A token stands for nothing in this run, or they stand for too much.
            RateLimited: So much of the same principal's is looked at already.

        """
        message = call.message
        if call.server == OWN or call.restored or message.method not in _TAKES_TOKENS:
            return call  # what a token stood for may look like one itself
        if b"<" not in message.body and b"\\u003" not in message.body:  # as a token begins
            return call
        nodes, known = most_nodes(len(message.body)), self._values.of(principal.person, run.id)
        return await in_turn(principal.person, nodes, self._with_values, call, known, pin)

    def _with_values(self, call: Call, known: RunValues, pin: Pin) -> Call:
        message, put_back = call.message, _PutBack(known, self._tokens)
        arguments = _replaced(message.params.get("arguments"), put_back)
        if not put_back.used:
            return call
        whole = with_params(message, {**message.params, "arguments": arguments})
        headers = [(n, text) for n, text in call.headers if not n.startswith(_MIRRORED)]
        if pin.approved is not None:
            headers += params_mirrored(arguments, pin.approved.definition)
        # The longest first: one may have another in it.
        used = sorted(put_back.used.items(), key=lambda pair: (-len(pair[1]), pair))
        return replace(
            call,
            message=whole,
            headers=tuple(headers),
            restored=tuple(used),
            written=message.params,
        )

    async def written(self, access: AccessRequest) -> Mapping[str, str]:
        """Return what each destination's value is with the tokens that the caller wrote.

        Raises:
            RateLimited: So much of the same principal's is looked at already.

        """
        values, restored = {d.value for d in access.review.destinations}, access.call.restored
        # Each token is looked for in each of them.
        nodes = most_nodes(len(restored) * sum(map(len, values)) // _BYTES_AT_ONCE)
        return await in_turn(access.principal.person, nodes, _written, values, restored)

    async def in_call(
        self, case: Case, named: Collection[str], flow: FlowReview
    ) -> Mapping[str, Any]:
        """Return what policy is told of the arguments of a call, which `flow` is about: `{"arguments", "result"}`.

        Those that the approved definition has `named` have names that are nobody's words.

        Raises:
            RateLimited: So much of the same principal's is looked at already.

        """
        nodes, left = self._work(case.nodes)
        asked, who = (self._detector, case.arguments, named), case.principal.person
        try:
            found = await in_turn(who, nodes, scan, *asked, left)
        except TooMuch:
            nodes = MASKING
            found = await in_turn(who, nodes, scan, *asked)
        if not found:
            return NOTHING_FOUND
        prompt = "" if case.task is None else case.task.prompt or ""
        given: Mapping[str, str] = {}
        if prompt or self._values.known(who, case.run.id) is not None:
            givers = self._values.of(who, case.run.id).givers
            # Whose many values are is as much work as to find them.
            given = await finished(who, nodes, givers, case.call.server, found, prompt)
        # Where the call goes may be as long as the call, and each of many is looked for there.
        about = found, given, flow.says_where
        rows = told(*about) if nodes <= QUICK_NODES else await finished(who, nodes, told, *about)
        return {"arguments": rows, "result": []}

    async def recorded(self, who: str, arguments: Any) -> Any:
        """Return what a record says of `arguments`, in the turn of `who`: no secret in any form."""
        mask = Obligation(duty=Duty.MASK, detail={"classes": sorted(_NEVER_RECORDED)})
        masker = Masker(self._detector, [mask], _no_token)
        return await finished(who, MASKING, masker.of, arguments)

    def read(self, content: Mapping[str, Any]) -> tuple[Label, tuple[str, ...], bool]:
        """Return what `content_label` does, and whether anything of a class may stand there; a no is certain."""
        text = text_of(content)
        return *content_label(content, text), may_find(self._detector, content, text)

    async def in_answer(
        self, permit: Permit, content: Mapping[str, Any], size: int, edge: Edge | None = None
    ) -> list[dict[str, Any]]:
        """Return what policy is told of `content`, which is what the permit's server says.

        It gave that to the run by then. With `edge`, `content` has a `notification`, of which what began
        before it is found, too.
        """
        before = None if edge is None else edge.text
        who = permit.principal.person
        nodes, left = self._work(most_nodes(size)) if before is None else (MASKING, inf)
        try:
            found = await finished(who, nodes, self._in_content, content, before, left)
        except TooMuch:
            nodes = MASKING
            found = await finished(who, nodes, self._in_content, content, before)
        if found:
            keys = await finished(who, nodes, keys_of, found)
            # From here on nothing of the same run comes between.
            known = self._values.of(permit.principal.person, permit.run.id)
            known.note(permit.call.server, keys)
            self._values.keep(permit.principal.person, permit.run.id, known)
        return told(found) if found else []

    def _in_content(self, content: Any, before: str | None, left: float = inf) -> list[Finding]:
        found = list(scan(self._detector, content, left=left))
        if before and (text := _running(_params(content))):
            pair = [before, text]
            look = self._detector.look("".join(pair))
            groups = self._detector.groups
            found += [
                Finding(of=span.of, group=groups[span.of], path="$", count=1)
                for span in over_edges(look, pair)
            ]
        return found

    def _work(self, nodes: int) -> tuple[int, float]:
        """Return how much it is to look through a message of so many `nodes`, if there is little in it.

        And how much may be looked at: without end beside the loop, where nothing is begun anew.
        """
        nodes = MASKING if self._detector.is_slow else nodes
        return nodes, _AT_ONCE if nodes <= QUICK_NODES else inf

    def masker(self, permit: Permit, obligations: Iterable[Obligation]) -> Masker | None:
        """Return what masks as `obligations` say, or `None` where they say nothing of it."""
        wanted = [one for one in obligations if one.duty in DUTIES]
        if not wanted:
            return None
        known = self._values.of(permit.principal.person, permit.run.id)
        self._values.keep(permit.principal.person, permit.run.id, known)
        return Masker(self._detector, wanted, partial(self._token, permit, known))

    def _token(self, permit: Permit, known: Any, of: str, text: str) -> str | None:
        token: str | None = known.token(of, text)
        self._values.keep(permit.principal.person, permit.run.id, known)
        return token


class _PutBack:
    """Puts values in place of the tokens of one call, as many and as long as one may have."""

    def __init__(self, known: RunValues, classes: Collection[str]) -> None:
        self._known = known
        self._classes = classes
        self._length = 0
        self.used: dict[str, str] = {}

    def __call__(self, found: re.Match[str]) -> str:
        """Return what stands in place of what was `found`.

        Raises:
            Denied: It stands for nothing, or for too much.

        """
        token = found[0]
        if found[1] not in self._classes:
            return token
        text = self._known.value(token)
        if text is None:
            why = f"{token} stands for nothing in this run: read what it stood for again"
            raise Denied(why, reasons=[("unknown_token", why)])
        self.used[token] = text
        self._length += len(text)
        if len(self.used) > _MOST_TOKENS or self._length > _LONGEST:
            why = "the tokens of this call stand for too much: make it in parts"
            raise Denied(why, reasons=[("too_many_tokens", why)])
        return text


def holds_secrets(dlp: Mapping[str, Any]) -> bool:
    """Whether the arguments of which policy is told `dlp` hold what stands in no record."""
    return any(row["group"] in _NEVER_RECORDED for row in dlp["arguments"])


def _params(content: Mapping[str, Any]) -> Mapping[str, Any]:
    params: Mapping[str, Any] = content["notification"]["params"]
    return params


def _running(content: Mapping[str, Any]) -> str:
    return next((content[n] for n in RUNNING if isinstance(content.get(n), str)), "")


def _written(values: Iterable[str], restored: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    return {text: as_written(text, restored) for text in values}


def _no_token(of: str, text: str) -> None:  # noqa: ARG001 - what a record says is brought back to nobody
    return None


def _replaced(node: Any, put_back: Any) -> Any:
    if isinstance(node, str):
        return TOKEN.sub(put_back, node)
    if isinstance(node, list):
        return [_replaced(inner, put_back) for inner in node]
    if isinstance(node, Mapping):
        return {name: _replaced(inner, put_back) for name, inner in node.items()}
    return node
