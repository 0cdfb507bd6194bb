"""What the gateway asks servers for by itself is read beside the loop where it is large."""

import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.domain.calls import RawAnswer, ServerEvent
from gateway.errors import UpstreamFailed
from gateway.turns import QUICK_NODES
from gateway.upstream import replies
from gateway.upstream.replies import ErrorAnswer, read_reply, reply_in, result_of
from gateway.wire.jsontext import WireLimits

LIMITS = WireLimits()
SMALL: dict[str, Any] = {"tools": [{"name": "a"}]}
LARGE: dict[str, Any] = {"tools": [{"name": f"t{number}"} for number in range(QUICK_NODES)]}


def body(result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "1", "result": result}).encode()


def whole(raw: bytes, status: int = 200) -> RawAnswer:
    return RawAnswer(status=status, headers=(), session=None, body=raw)


def streamed(raw: bytes, status: int = 200) -> RawAnswer:
    async def events() -> AsyncIterator[ServerEvent]:
        yield ServerEvent(raw=b"\n", data=None)
        yield ServerEvent(raw=b"data: " + raw + b"\n\n", data=raw)

    return RawAnswer(status=status, headers=(), session=None, body=events())


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Note where answers are read, and their prints made."""
    noted: set[int] = set()
    for name in ("hear", "_print"):
        work = getattr(replies, name)

        def noting(*args: Any, work: Any = work) -> Any:
            noted.add(threading.get_ident())
            return work(*args)

        monkeypatch.setattr(replies, name, noting)
    return noted


HERE = threading.get_ident


@pytest.mark.parametrize("answered", [whole, streamed])
async def test_a_large_answer_to_ourselves_is_read_beside_the_loop(
    answered: Any, threads: set[int]
) -> None:
    result, _ = await result_of("crm", answered(body(LARGE)), "tools/list", "1", LIMITS)
    assert result == LARGE
    assert threads
    assert HERE() not in threads


@pytest.mark.parametrize("answered", [whole, streamed])
async def test_a_small_answer_to_ourselves_is_read_at_once(
    answered: Any, threads: set[int]
) -> None:
    assert (await result_of("crm", answered(body(SMALL)), "ping", "1", LIMITS))[0] == SMALL
    assert threads == {HERE()}


@pytest.mark.parametrize("answered", [whole, streamed])
async def test_a_large_answer_that_is_known_is_recognised_beside_the_loop_and_read_when_asked_for(
    answered: Any, threads: set[int]
) -> None:
    print_ = (await reply_in("crm", answered(body(LARGE)), "tools/list", "1", LIMITS)).print
    threads.clear()
    known = await reply_in("crm", answered(body(LARGE)), "tools/list", "1", LIMITS, known=print_)
    assert (known.result, known.print) == (None, print_)
    assert await read_reply("crm", known, "tools/list", LIMITS) == LARGE
    assert threads
    assert HERE() not in threads


async def test_an_error_is_none_that_is_known() -> None:
    print_ = (await reply_in("crm", whole(body(SMALL)), "tools/list", "1", LIMITS)).print
    again = await reply_in("crm", whole(body(SMALL), 500), "tools/list", "1", LIMITS, known=print_)
    assert again.result == SMALL
    with pytest.raises(ErrorAnswer):
        await reply_in("crm", whole(b"<html>", 500), "tools/list", "1", LIMITS)
    with pytest.raises(UpstreamFailed, match="malformed"):
        await reply_in("crm", whole(b"<html>"), "tools/list", "1", LIMITS)
