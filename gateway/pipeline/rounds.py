"""Calls in rounds: what a server gives and asks in the middle of one comes back from its own caller."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from gateway.domain.bounded import digest_of
from gateway.domain.calls import Call, Form, Permit
from gateway.domain.identity import Principal
from gateway.domain.tools import OWN
from gateway.errors import ProtocolError
from gateway.flow.given import Given, Sort
from gateway.wire.extensions import with_params
from gateway.wire.jsonrpc import INVALID_PARAMS
from gateway.wire.operations import ABOUT_TASKS
from gateway.wire.rounds import (
    REQUESTS,
    RESPONSES,
    STATE,
    Round,
    open_state,
    round_of,
    seal_state,
)

GIVEN: Final = frozenset({STATE, REQUESTS, "nextCursor"})
"""Members of a result that its caller brings back."""


class Rounds:
    """Seals states and opens them; what the gateway itself gives names its run, and is no server's."""

    def __init__(self, *, given: Given, seal_key: bytes) -> None:
        self._given = given
        self._seal_key = seal_key

    def opened(self, call: Call, principal: Principal) -> Call:
        """Return `call`, which `principal` makes and which is `BROUGHT_BACK`, with the state that its server gave them.

        Raises:
            ProtocolError: The state is another's, of another call or none; or an answer is to a
                question that was put to others and not in this call.

        """
        params = call.message.params
        if call.server == OWN or call.message.form is Form.RESPONSE:
            return call
        if call.message.method in ABOUT_TASKS:
            return call  # what answers a task's questions is looked at as a round of its call
        of = round_of(call, principal)
        self._require_asked(call, of, params.get(RESPONSES))
        if STATE not in params:
            return call
        state = open_state(self._seal_key, of, params[STATE])
        if state is None:
            raise _not_found(call, "there is no such request state")
        self._given.add(call.server, _in_round(of, state), sort=Sort.STATE)
        return replace(call, message=with_params(call.message, {**params, STATE: state}))

    def _require_asked(self, call: Call, of: Round, answers: Any) -> None:
        """Return if `answers` are to questions put in this round, or to what nobody has asked.

        The latter are judged as whatever a caller says that was not asked for.
        """
        for name in answers if isinstance(answers, dict) else ():
            asked = partial(self._given.has, call.server, sort=Sort.QUESTION)
            if asked(_in_round(None, name)) and not asked(_in_round(of, name)):
                raise _not_found(call, "an answer is to a question that was not asked here")

    def note(self, permit: Permit, result: Mapping[str, Any]) -> None:
        """Note what a server gives out to be brought back (`GIVEN`): to whom, where that matters."""
        server, who = permit.call.server, permit.principal.key
        of = round_of(permit.call, permit.principal)
        if isinstance(state := result.get(STATE), str):
            self._given.add(server, _in_round(of, state), sort=Sort.STATE)
        if isinstance(page := result.get("nextCursor"), str):
            self._given.add(server, page, to=who, sort=Sort.PAGE)
            self._given.add(server, page_of_somebody(page), sort=Sort.PAGE)
        asked = result.get(REQUESTS)
        for name in asked if isinstance(asked, dict) else ():
            self._given.add(server, _in_round(None, name), sort=Sort.QUESTION)
            self._given.add(server, _in_round(of, name), sort=Sort.QUESTION)

    def sealed(self, permit: Permit, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a result as its caller gets it: a state in it is sealed, which a duty may have left out.

        Raises:
            UpstreamFailed: The state in it is no text, or too long.

        """
        if permit.call.server == OWN or STATE not in result:
            return result
        of = round_of(permit.call, permit.principal)
        return {**result, STATE: seal_state(self._seal_key, of, result[STATE])}


def page_of_somebody(cursor: str) -> str:
    """Return what stands for a page of a list that a server gave to somebody."""
    return digest_of("page", cursor).hex()


def was_asked(given: Given, call: Call, principal: Principal, name: str) -> bool:
    """Tell whether `principal` was asked `name` in this very call: whatever else is so called."""
    name = _in_round(round_of(call, principal), name)
    return given.has(call.server, name, sort=Sort.QUESTION)


def is_its_state(given: Given, call: Call, principal: Principal, state: str) -> bool:
    """Tell whether `principal` was given `state` in this very call: it is no other's, and nothing else."""
    name = _in_round(round_of(call, principal), state)
    return given.has(call.server, name, sort=Sort.STATE)


def _in_round(of: Round | None, name: str) -> str:
    """Return what stands for what a server gave somebody, or gave them as a part of one call."""
    caller = () if of is None else of.parts
    return digest_of("in", *caller, name).hex()


def _not_found(call: Call, public: str) -> ProtocolError:
    return ProtocolError(public, rpc_code=INVALID_PARAMS, rpc_id=call.message.id)
