"""Asking a user which of several targets is meant by a name that several servers use (pure)."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import Message
from gateway.wire import jsontext
from gateway.wire.extensions import with_params

_KEY: Final = "douane-name"
_STATE: Final = "douane-name."
_RESPONSES: Final = "inputResponses"
_REQUEST_STATE: Final = "requestState"
_NAME: Final = "name"


@value
class Told:
    """What came back with a call about which target it means: a claim, as all of the call is."""

    asked: bool = False
    """Whether the user was asked."""
    name: str | None = None
    """What they chose, if anything."""


NOTHING_TOLD: Final = Told()


def question(name: str, candidates: Sequence[str]) -> Mapping[str, Any]:
    """Return the params of the elicitation/create that asks for one of `candidates`."""
    choice = {"type": "string", "title": "Which one is meant", "enum": list(candidates)}
    schema = {"type": "object", "properties": {_NAME: choice}, "required": [_NAME]}
    message = f"Several servers have something called {name!r}. Which one is meant?"
    return {"mode": "form", "message": message, "requestedSchema": schema}


def asking_result(name: str, candidates: Sequence[str]) -> Mapping[str, Any]:
    """Return the result that asks the user of a client of the stateless revision."""
    asked = {"method": "elicitation/create", "params": question(name, candidates)}
    return {"resultType": "input_required", "inputRequests": {_KEY: asked}}


def asking_request(id_: str, name: str, candidates: Sequence[str]) -> bytes:
    """Return the request that asks the user of a client of a session."""
    params = {part: said for part, said in question(name, candidates).items() if part != "mode"}
    request = {"jsonrpc": "2.0", "id": id_, "method": "elicitation/create", "params": params}
    return jsontext.write(request).encode()


def chosen(result: object) -> str | None:
    """Return what an `ElicitResult` chose; nothing, if its user did not."""
    if not isinstance(result, dict) or result.get("action") != "accept":
        return None
    content = result.get("content")
    name = content.get(_NAME) if isinstance(content, dict) else None
    return name if isinstance(name, str) else None


def told_in(message: Message) -> tuple[Message, Told]:
    """Return `message` without what answers our question, and that answer.

    What the user chose a round ago comes back in `requestState`, around what a server put there.
    """
    params = dict(message.params)
    responses, state = params.get(_RESPONSES), params.get(_REQUEST_STATE)
    told = NOTHING_TOLD
    if isinstance(responses, dict) and _KEY in responses:
        told = Told(asked=True, name=chosen(responses[_KEY]))
        params[_RESPONSES] = {key: said for key, said in responses.items() if key != _KEY}
        if not params[_RESPONSES]:
            del params[_RESPONSES]
    if isinstance(state, str) and state.startswith(_STATE):
        name, inner = _opened(state)
        told = told if told.asked else Told(asked=True, name=name)
        del params[_REQUEST_STATE]
        if inner is not None:
            params[_REQUEST_STATE] = inner
    return (message, told) if told is NOTHING_TOLD else (with_params(message, params), told)


def remembering(name: str, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result that asks for input so that the next round knows that `name` is meant."""
    kept = jsontext.write_octets([name, result.get(_REQUEST_STATE)])
    state = f"{_STATE}{base64.urlsafe_b64encode(kept).decode()}"
    return {**result, _REQUEST_STATE: state}


def _opened(state: str) -> tuple[str | None, str | None]:
    try:
        # One name and one text: what nests or has more in it is none of ours, and is not built.
        kept = base64.urlsafe_b64decode(state.removeprefix(_STATE))
        name, inner = jsontext.read_exact(kept, 1)
    except (TypeError, ValueError, binascii.Error):
        return None, None
    return (
        name if isinstance(name, str) else None,
        inner if isinstance(inner, str) else None,
    )
