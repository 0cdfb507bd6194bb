"""A local server's process: one for each session, spoken to line by line, and ended by the book."""

import asyncio
import json
import logging
from dataclasses import replace
from http import HTTPStatus

import pytest

from gateway.domain.calls import Form, Permit
from gateway.domain.room import SHARE, UNDER_WAY, Rooms, Share
from gateway.domain.tools import Profile
from gateway.errors import LimitExceeded, UpstreamFailed
from gateway.upstream.settings import Limits, Timeouts
from tests.upstream.permits import permit_for
from tests.upstream.started import (
    bare,
    call,
    initialize,
    local_upstream,
    messages,
    runs,
    said,
    session_of,
    settings,
    until,
)


def of(permit: Permit, client: str) -> Permit:
    return replace(permit, principal=replace(permit.principal, client_id=client))


def of_somebody_else(permit: Permit) -> Permit:
    return replace(permit, principal=replace(permit.principal, subject="somebody-else"))


async def test_a_handshake_starts_a_process_and_mints_a_session(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        answer = await upstream.forward(initialize())
        assert answer.status == HTTPStatus.OK
        assert answer.headers == (("content-type", "application/json"),)
        assert len(answer.session or "") >= 43
        (message,) = await messages(answer)
        assert message["result"]["serverInfo"] == {"name": "local", "version": "1"}


async def test_each_session_has_a_process_of_its_own(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        one, other = await session_of(upstream), await session_of(upstream)
        pids = [await said(upstream, call("pid", session)) for session in (one, one, other)]
        assert pids[0] == pids[1] != pids[2]


async def test_a_session_serves_nobody_but_its_principal(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        answer = await upstream.forward(of(call("pid", session), "somebody-else"))
        assert (answer.status, answer.body, answer.session) == (HTTPStatus.NOT_FOUND, b"", None)


async def test_without_a_session_there_is_nothing_but_a_handshake(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        answer = await upstream.forward(permit_for("tools/list", profile=Profile.LEGACY))
        assert (answer.status, answer.body) == (HTTPStatus.BAD_REQUEST, b"")


async def test_a_handshake_that_is_refused_leaves_no_process(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        answer = await upstream.forward(initialize(body=b'{"jsonrpc":"2.0","id":7,"method":"x"}'))
        assert answer.session is None
        assert (await messages(answer))[0]["error"]["code"] == -32601
        assert list(upstream._channels.of(initialize().principal.key)) == []


async def test_line_breaks_between_the_tokens_of_a_message_become_blanks(tmp_path):
    body = b'{"jsonrpc":"2.0",\r\n"id":7,"method":"tools/call",\n"params":{"name":"echo","arguments":{"a":"x\\ny","n":1.50}}}'
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        permit = permit_for(
            profile=Profile.LEGACY, session=session, body=body, params={"name": "echo"}
        )
        assert await said(upstream, permit) == {"a": "x\ny", "n": 1.5}


async def test_answers_find_their_requests_however_many_there_are(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        ids = [*range(20), *map(str, range(20))]
        answers = await asyncio.gather(
            *(upstream.forward(call("echo", session, id_, said=repr(id_))) for id_ in ids)
        )
        for id_, answer in zip(ids, answers, strict=True):
            (message,) = await messages(answer)
            assert message["id"] == id_
            assert json.loads(message["result"]["content"][0]["text"]) == {"said": repr(id_)}


async def test_an_id_that_is_in_use_is_refused_within_a_session(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        first = asyncio.create_task(upstream.forward(call("silent", session)))
        await asyncio.sleep(0)
        with pytest.raises(UpstreamFailed, match="same id"):
            await upstream.forward(call("echo", session))
        first.cancel()


async def test_progress_comes_on_the_stream_of_its_request(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        answer = await upstream.forward(call("progress", session, token="t"))
        assert answer.headers[0] == ("content-type", "text/event-stream")
        got = [m.get("method") or m["result"]["content"][0]["text"] for m in await messages(answer)]
        assert got == ["notifications/progress", "notifications/progress", "done"]


async def test_progress_of_one_request_is_not_told_to_another(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        waiting = asyncio.create_task(upstream.forward(call("silent", session, 1, token="t")))
        await asyncio.sleep(0)
        channel = upstream._channels.find(session, initialize().principal.key)
        assert channel is not None
        inbox = channel._by_token[str, "t"]
        answer = await upstream.forward(call("progress", session, 2, token="u"))
        assert [m.get("method") for m in await messages(answer)][:2] == [
            "notifications/progress"
        ] * 2
        assert not inbox._waiting
        waiting.cancel()


@pytest.mark.parametrize(("tool", "beside"), [("log", True), ("progress", False)])
async def test_of_what_comes_on_its_one_line_that_alone_is_a_calls_that_names_its_token(
    tmp_path, tool, beside
):
    async with local_upstream(tmp_path) as upstream:
        answer = await upstream.forward(call(tool, await session_of(upstream), token="t"))
        assert not isinstance(answer.body, bytes)
        told, *_, last = [event async for event in answer.body]
        assert (told.beside, last.beside) == (beside, False)


async def test_what_a_server_asks_comes_on_the_request_under_way_and_is_answered(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        answer = await upstream.forward(call("ask", session))
        assert not isinstance(answer.body, bytes)
        asked = json.loads((await anext(answer.body)).data or b"")
        assert asked == {"jsonrpc": "2.0", "id": "q1", "method": "ping"}
        body = b'{"jsonrpc":"2.0","id":"q1","result":{}}'
        reply = permit_for(
            form=Form.RESPONSE, profile=Profile.LEGACY, rpc_id="q1", session=session, body=body
        )
        assert (await upstream.forward(reply)).status == HTTPStatus.ACCEPTED
        last = json.loads((await anext(answer.body)).data or b"")
        assert json.loads(last["result"]["content"][0]["text"])["result"] == {}


async def test_a_refusal_in_the_clients_place_reaches_the_server(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        permit = call("ask", session)
        answer = await upstream.forward(permit)
        no = b'{"jsonrpc":"2.0","id":"q1","error":{"code":-1,"message":"no"}}'
        await upstream.reject(permit, no)
        last = (await messages(answer))[-1]
        assert json.loads(last["result"]["content"][0]["text"])["error"]["message"] == "no"


async def test_a_change_is_told_to_whoever_listens(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        listening = await upstream.forward(bare(Form.STREAM, session))
        assert not isinstance(listening.body, bytes)
        answer = await upstream.forward(call("changed", session))
        assert isinstance(answer.body, bytes)
        event = await anext(listening.body)
        assert json.loads(event.data or b"")["method"] == "notifications/tools/list_changed"
        second = await upstream.forward(bare(Form.STREAM, session))
        assert second.status == HTTPStatus.CONFLICT


async def test_what_is_said_before_anybody_listens_is_kept(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        waiting = asyncio.create_task(upstream.forward(call("ask", session)))
        answer = await waiting
        await answer.body.aclose()  # type: ignore[union-attr]
        reply = permit_for(
            form=Form.RESPONSE,
            profile=Profile.LEGACY,
            rpc_id="q1",
            session=session,
            body=b'{"jsonrpc":"2.0","id":"q1","result":{}}',
        )
        listening = await upstream.forward(bare(Form.STREAM, session))
        assert not isinstance(listening.body, bytes)
        await upstream.forward(reply)
        late = json.loads((await anext(listening.body)).data or b"")
        assert late["id"] == 7


async def test_a_delete_ends_the_session_and_its_process(tmp_path):
    async with local_upstream(tmp_path, "tidy") as upstream:
        session = await session_of(upstream)
        pid = await said(upstream, call("pid", session))
        assert (await upstream.forward(bare(Form.END, session))).status == HTTPStatus.OK
        assert not runs(pid)
        assert (tmp_path / "ended").read_text() == "EOF"
        gone = await upstream.forward(call("pid", session))
        assert gone.status == HTTPStatus.NOT_FOUND


async def test_a_server_that_goes_on_after_its_input_is_told_to_end(tmp_path):
    async with local_upstream(tmp_path, "notes-the-signal") as upstream:
        pid = await said(upstream, call("pid", await session_of(upstream)))
    assert not runs(pid)
    assert (tmp_path / "ended").read_text() == "TERM"


async def test_a_server_that_will_not_end_is_killed_with_what_it_started(tmp_path):
    async with local_upstream(tmp_path, "stubborn") as upstream:
        session = await session_of(upstream)
        pid = await said(upstream, call("pid", session))
    assert not runs(pid)


async def test_a_session_that_nobody_uses_ends(tmp_path):
    one = replace(settings(tmp_path), idle_s=1.0)
    async with local_upstream(tmp_path, settings=one) as upstream:
        pid = await said(upstream, call("pid", await session_of(upstream)))
        await until(lambda: not runs(pid))


async def test_a_session_in_use_does_not_end(tmp_path):
    one = replace(settings(tmp_path), idle_s=1.0)
    async with local_upstream(tmp_path, settings=one) as upstream:
        session = await session_of(upstream)
        listening = await upstream.forward(bare(Form.STREAM, session))
        pid = await said(upstream, call("pid", session))
        await asyncio.sleep(2.5)
        assert runs(pid)
        await listening.body.aclose()  # type: ignore[union-attr]


async def test_a_principal_gets_no_more_processes_than_its_share(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        sessions = [await session_of(upstream) for _ in range(9)]
        assert (await upstream.forward(call("pid", sessions[0]))).status == HTTPStatus.NOT_FOUND
        assert (await upstream.forward(call("pid", sessions[1]))).status == HTTPStatus.OK


async def test_a_person_with_many_clients_gets_no_more_processes_than_with_one(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        for number in range(9):
            await upstream.forward(of(initialize(), f"client-{number}"))
        assert len([one for one in upstream._channels._open.values() if not one.ended]) == 8


async def test_many_sessions_that_begin_at_once_get_no_more_processes(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        begins = [upstream.forward(initialize()) for _ in range(9)]
        answers = await asyncio.gather(*begins, return_exceptions=True)
        refused = [str(one) for one in answers if isinstance(one, UpstreamFailed)]
        assert (len(refused), len(list(upstream._channels.of(initialize().principal.key)))) == (
            1,
            8,
        )


async def test_there_are_no_more_processes_than_allowed_and_nobody_elses_is_ended(tmp_path):
    one = replace(settings(tmp_path), processes=1)
    async with local_upstream(tmp_path, settings=one) as upstream:
        session = await session_of(upstream)
        with pytest.raises(UpstreamFailed, match="too many"):
            await upstream.forward(of_somebody_else(initialize()))
        assert (await upstream.forward(call("pid", session))).status == HTTPStatus.OK


async def test_a_server_that_may_not_be_started_is_not(tmp_path):
    one = replace(settings(tmp_path), refused="no jail")
    async with local_upstream(tmp_path, settings=one) as upstream:
        with pytest.raises(UpstreamFailed, match="cannot be started on this machine") as refused:
            await upstream.forward(initialize())
        assert refused.value.detail == "no jail"


# The stateless revision.


async def test_stateless_requests_share_one_process(tmp_path):
    async with local_upstream(tmp_path, "modern") as upstream:
        pids = [await said(upstream, call("pid", rpc_id=id_)) for id_ in (1, 2, 1)]
        assert len(set(pids)) == 1


async def test_stateless_requests_of_one_id_at_once_do_not_share_a_process(tmp_path):
    async with local_upstream(tmp_path, "modern") as upstream:
        waiting = asyncio.create_task(upstream.forward(call("silent", rpc_id=1)))
        await until((tmp_path / "unanswered").exists)
        (message,) = await messages(await upstream.forward(call("echo", rpc_id=1, a=1)))
        assert message["id"] == 1
        assert len(upstream._shared(call("x").principal)) == 2
        waiting.cancel()


async def test_no_principal_shares_a_stateless_process_with_another(tmp_path):
    async with local_upstream(tmp_path, "modern") as upstream:
        ours = await said(upstream, call("pid"))
        theirs = await said(upstream, of(call("pid"), "somebody-else"))
        assert ours != theirs


async def test_a_stateless_request_that_nobody_waits_for_is_cancelled(tmp_path):
    async with local_upstream(tmp_path, "modern") as upstream:
        waiting = asyncio.create_task(upstream.forward(call("silent", rpc_id="mine")))
        await until((tmp_path / "unanswered").exists)
        waiting.cancel()
        await until((tmp_path / "cancelled").exists)
        assert (tmp_path / "cancelled").read_text() == "mine\n"


async def test_a_subscription_hears_what_is_said_for_it(tmp_path):
    async with local_upstream(tmp_path, "modern") as upstream:
        answer = await upstream.forward(permit_for("subscriptions/listen", rpc_id="s"))
        assert not isinstance(answer.body, bytes)
        event = await anext(answer.body)
        assert "acknowledged" in json.loads(event.data or b"")["method"]
        await answer.body.aclose()  # type: ignore[attr-defined]


async def test_a_stateless_server_that_asks_is_answered_no(tmp_path):
    async with local_upstream(tmp_path, "modern") as upstream:
        assert (await said(upstream, call("ask")))["error"]["code"] == -32601


async def test_a_stateless_process_that_died_is_replaced(tmp_path):
    async with local_upstream(tmp_path, "modern") as upstream:
        with pytest.raises(UpstreamFailed):
            await upstream.forward(call("exit"))
        assert await said(upstream, call("echo", a=1)) == {"a": 1}


async def test_a_cancellation_of_the_stateless_revision_goes_where_its_request_is(tmp_path):
    async with local_upstream(tmp_path, "modern") as upstream:
        params = {"requestId": 5}
        notification = permit_for(
            "notifications/cancelled", form=Form.NOTIFICATION, rpc_id=None, params=params
        )
        assert (await upstream.forward(notification)).status == HTTPStatus.ACCEPTED
        assert not upstream._shared(notification.principal)


# Hostile ones.


async def test_a_line_that_is_no_message_harms_nobody(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        assert await said(upstream, call("garbage", session)) == "after garbage"


async def test_a_message_that_can_be_read_in_two_ways_fails_the_call_and_not_the_next(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        with pytest.raises(UpstreamFailed, match="malformed"):
            await upstream.forward(call("broken", session, 1))
        assert await said(upstream, call("echo", session, 2, a=1)) == {"a": 1}


async def test_a_call_that_is_never_answered_fails_and_is_cancelled(tmp_path):
    async with local_upstream(tmp_path, idle_s=2.0) as upstream:
        session = await session_of(upstream)
        with pytest.raises(UpstreamFailed, match="did not answer in time"):
            await upstream.forward(call("silent", session, "slow"))
        await until((tmp_path / "cancelled").exists)
        assert (tmp_path / "cancelled").read_text() == "slow\n"
        assert await said(upstream, call("echo", session, 2, a=1)) == {"a": 1}


async def test_a_process_that_ends_mid_call_fails_the_call_and_ends_the_session(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        other = asyncio.create_task(upstream.forward(call("silent", session, 1)))
        await asyncio.sleep(0)
        with pytest.raises(UpstreamFailed, match="the process has ended"):
            await upstream.forward(call("exit", session, 2))
        with pytest.raises(UpstreamFailed, match="the process has ended"):
            await other
        assert (await upstream.forward(call("pid", session))).status == HTTPStatus.NOT_FOUND


async def test_a_line_without_end_ends_the_process(tmp_path):
    limits = Limits(result_bytes=100_000)
    async with local_upstream(tmp_path, limits=limits) as upstream:
        session = await session_of(upstream)
        pid = await said(upstream, call("pid", session))
        with pytest.raises(LimitExceeded, match="too large"):
            await upstream.forward(call("huge", session, bytes=1_000_000))
        await until(lambda: not runs(pid))


async def test_a_stream_without_end_is_cut(tmp_path):
    limits = Limits(result_bytes=10_000, stream_bytes=50_000)
    async with local_upstream(tmp_path, limits=limits) as upstream:
        session = await session_of(upstream)
        answer = await upstream.forward(call("flood", session, times=1000))
        with pytest.raises(LimitExceeded, match="too large"):
            await messages(answer)


async def test_a_reader_that_is_slow_holds_no_more_than_its_share_in_memory(tmp_path):
    limits = Limits(result_bytes=10_000)
    async with local_upstream(tmp_path, limits=limits) as upstream:
        session = await session_of(upstream)
        answer = await upstream.forward(call("flood", session, times=500))
        await asyncio.sleep(0.3)
        assert answer.body._inbox._bytes < 20_000  # type: ignore[union-attr]
        assert len(await messages(answer)) == 501


async def test_answers_that_have_no_room_yet_share_what_one_process_may_say(tmp_path):
    limits, rooms, large = Limits(result_bytes=40_000), Rooms(), "x" * 20_000
    async with local_upstream(tmp_path, limits=limits) as upstream:
        session = await session_of(upstream)
        owner = call("echo", session).principal.key
        channel = upstream._channels.find(session, owner)
        assert channel is not None
        backlog = channel._backlog
        rooms.answers.take(UNDER_WAY)
        SHARE.set(Share(rooms))
        asked = [
            asyncio.create_task(said(upstream, call("echo", session, number, a=large)))
            for number in range(1, 6)
        ]
        await until(lambda: backlog.is_full)
        for _ in range(100):
            await asyncio.sleep(0)
        assert backlog._bytes < 65_000
        assert not any(one.done() for one in asked)
        rooms.answers.give(UNDER_WAY)
        assert await asyncio.gather(*asked) == [{"a": large}] * 5
        assert backlog._bytes == 0


async def test_only_the_first_answer_counts(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        assert await said(upstream, call("twice", session, 1)) == "first"
        assert await said(upstream, call("echo", session, 2, a=1)) == {"a": 1}


async def test_a_late_answer_is_not_taken_for_that_of_a_new_request_of_the_same_id(tmp_path):
    async with local_upstream(tmp_path, "modern") as upstream:
        waiting = asyncio.create_task(upstream.forward(call("silent", rpc_id=1, token="t")))
        await until((tmp_path / "unanswered").exists)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        first = upstream._shared(call("x").principal)[0]
        for asked in (call("echo", rpc_id=1), call("progress", rpc_id=2, token="t")):
            await messages(await upstream.forward(asked))
        assert first.used_at < upstream._shared(call("x").principal)[1].used_at
        assert await said(upstream, call("echo", rpc_id=3, a=1)) == {"a": 1}


async def test_an_answer_that_nobody_asked_for_goes_nowhere(tmp_path):
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        answer = await upstream.forward(call("stranger", session))
        (message,) = await messages(answer)
        assert message["id"] == 7


async def test_a_server_that_does_not_read_fails_the_call(tmp_path):
    timeouts = Timeouts(connect_s=0.5, idle_s=1.0, hard_s=20.0)
    async with local_upstream(tmp_path, timeouts=timeouts) as upstream:
        session = await session_of(upstream)
        pid = await said(upstream, call("pid", session))
        deaf = asyncio.create_task(upstream.forward(call("deaf", session, 1)))
        await asyncio.sleep(0)
        with pytest.raises(UpstreamFailed, match="does not read"):
            await upstream.forward(call("echo", session, 2, a="x" * 3_000_000))
        with pytest.raises(UpstreamFailed):
            await deaf
        await until(lambda: not runs(pid))


async def test_what_it_writes_to_stderr_is_logged_at_debug_and_no_more_than_a_part(
    tmp_path, caplog
):
    caplog.set_level(logging.DEBUG, "gateway.upstream")
    async with local_upstream(tmp_path) as upstream:
        assert await said(upstream, call("complain", await session_of(upstream))) == "done"
    said_aloud = [r for r in caplog.records if "secret-of-stderr" in r.getMessage()]
    assert {record.levelno for record in said_aloud} == {logging.DEBUG}
    assert 0 < sum(len(record.getMessage()) for record in said_aloud) < 100_000


async def test_its_environment_holds_nothing_of_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("OURS", "secret")
    given = {"environment": {"TOKEN": "theirs"}}
    async with local_upstream(tmp_path, launch=given) as upstream:
        found = await said(upstream, call("environment", await session_of(upstream)))
    assert set(found) - {"PWD", "LC_CTYPE"} == {"PATH", "LANG", "TOKEN"}
    assert found["TOKEN"] == "theirs"
