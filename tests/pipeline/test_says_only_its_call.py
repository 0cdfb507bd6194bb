"""A call that says nothing besides is spared what only the others need, and ends as they do."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.calls import Form, Message
from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import STRICTEST_DEFAULT, ToolRule
from gateway.domain.tools import Profile
from gateway.pipeline import admission, asides, questions
from gateway.wire.fixed import says_only_its_call
from tests.pipeline.house import ALICE, House

VERSION = "io.modelcontextprotocol/protocolVersion"
READ = Source(server="web", tool="fetch", record="r", label=STRICTEST_DEFAULT)
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

ABLE: list[Any] = [
    {},
    {"elicitation": {}},
    {"elicitation": {"form": {}, "url": True}},
    {"elicitation": {"said": "x"}},
    {"said": {}},
    {"tasks": {}},
    {"experimental": {}},
    {"extensions": {"a/b": {"c": 1}}},
    {"Extensions": {}},
    [],
    None,
    "x",
]
METAS = st.fixed_dictionaries(
    {},
    optional={
        VERSION: st.sampled_from(["2026-07-28", "x", 1]),
        CAPABILITIES: st.sampled_from(ABLE),
        "progressToken": st.just(1),
        "io.modelcontextprotocol/clientInfo": st.just({"name": "a", "b": 1}),
        "douane/task": st.just({"prompt": "x"}),
        "douane/origin": st.just("sandbox"),
        "douane/run": st.just("r"),
        "said": st.just("x"),
    },
)
PARAMS = st.fixed_dictionaries(
    {"name": st.just("search")},
    optional={
        "arguments": st.sampled_from([{}, {"q": "x"}]),
        "_meta": st.one_of(METAS, st.sampled_from([None, [], "x"])),
        "task": st.just({}),
        "Task": st.just({}),
        "inputResponses": st.sampled_from([{"douane-approval": {"action": "accept"}}, {"a": {}}]),
        "requestState": st.sampled_from(["douane-x", "x"]),
        "said": st.just("x"),
    },
)


def said(method: str, params: dict[str, Any], id_: str | int | None) -> Message:
    form = Form.NOTIFICATION if id_ is None else Form.REQUEST
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": id_}).encode()
    return Message(form=form, method=method, id=id_, params=params, body=body)


WITH_META = st.fixed_dictionaries({"name": st.just("search"), "_meta": METAS})
ENVELOPES = st.fixed_dictionaries(
    {
        "name": st.just("search"),
        "_meta": st.fixed_dictionaries({CAPABILITIES: st.sampled_from(ABLE)}),
    }
)
MESSAGES = st.builds(
    said,
    st.sampled_from(["tools/call", "prompts/get"]),
    st.one_of(PARAMS, WITH_META, ENVELOPES),
    st.sampled_from([1, "x", None]),
)


def require_alike(message: Message, profile: Profile, *, wary: bool) -> None:
    house = House()
    call = replace(house.call("search", profile=profile), message=message)

    def told() -> tuple[Any, Any]:
        admission_ = house.pipeline._admission
        beside = admission_._questions._beside(call, ALICE, run, tuple)
        return admission_.narrowed(call), beside

    run = Run(id=RunId("r"), label=STRICTEST_DEFAULT, sources=(READ,) if wary else ())
    short = told()
    with pytest.MonkeyPatch.context() as patched:
        for module in (admission, questions):
            patched.setattr(module, "says_only_its_call", lambda _: False)
        assert told() == short


@given(MESSAGES, st.sampled_from(list(Profile)), st.booleans())
async def test_nothing_is_told_of_it_or_left_out_that_would_be(
    message: Message, profile: Profile, wary: bool
) -> None:
    require_alike(message, profile, wary=wary)


SAID: list[dict[str, Any]] = [
    *({"_meta": {CAPABILITIES: declared}} for declared in ABLE),
    {"_meta": {"douane/task": {"prompt": "x"}}},
    {"_meta": {"said": "x"}},
    {"task": {}},
    {"said": "x"},
]


@pytest.mark.parametrize("more", SAID)
async def test_whoever_says_more_is_heard_whole(more: dict[str, Any]) -> None:
    message = said("tools/call", {"name": "search", "arguments": {"q": "x"}, **more}, "x")
    for wary in (False, True):
        require_alike(message, Profile.MODERN, wary=wary)


@pytest.mark.parametrize("meta", [None, {}, {CAPABILITIES: {}}, {CAPABILITIES: {"sampling": {}}}])
@pytest.mark.parametrize("has_read", [False, True])
async def test_it_goes_out_as_it_would(meta: dict[str, Any] | None, has_read: bool) -> None:
    more: dict[str, Any] = {} if meta is None else {"_meta": meta}

    async def went() -> Message:
        house = House(tools={"search": ToolRule(result=STRICTEST_DEFAULT)})
        await house.approve_all(Profile.MODERN)
        for _ in range(1 + has_read):
            await house.handle(house.call("search", {"q": "x"}, **more))
        return house.server.saw[-1].call.message

    short = await went()
    with pytest.MonkeyPatch.context() as patched:
        for module in (admission, asides, questions):
            patched.setattr(module, "says_only_its_call", lambda _: False)
        long = await went()
    assert says_only_its_call(short)
    assert (short.params, short.method) == (long.params, long.method)
    assert (short.id == long.id == 1) is not has_read


def test_only_a_call_of_a_tool_is_one() -> None:
    assert says_only_its_call(said("tools/call", {"name": "search", "arguments": {}}, 1))
    assert not says_only_its_call(said("prompts/get", {"name": "search"}, 1))
