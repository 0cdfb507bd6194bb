"""What moves by itself at the desk: numbers alone, for whoever may see them, for as long as they may."""

import asyncio
import json
import re
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from gateway.web.desk import live
from gateway.web.pages import Pages
from tests.signin.house import HTTP
from tests.web.desk_site import desk_house

LIVE = f"{HTTP}/desk/live"
SINKS = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|createHTML|srcdoc|setAttribute\(.on"


@pytest.fixture
async def house(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "_EVERY_S", 0.01)
    async with desk_house(tmp_path) as house:
        yield house


class Listening:
    """A browser on the stream."""

    def __init__(self):
        self.status = 0
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.ended = asyncio.Event()

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif (said := message.get("body", b"").removeprefix(b"data: ").strip()) not in {b"", b":"}:
            await self.events.put(json.loads(said))

    async def receive(self):
        await asyncio.Event().wait()


@asynccontextmanager
async def listening(house, browser):
    (jar,) = browser.cookies.values()
    cookie = "; ".join(f"{name}={told}" for name, told in jar.items())
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/desk/live",
        "raw_path": b"/desk/live",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "headers": [(b"host", b"127.0.0.1:8080"), (b"cookie", cookie.encode())],
        "client": ("192.0.2.7", 50000),
        "server": ("127.0.0.1", 8080),
    }
    one = Listening()
    task = asyncio.create_task(house.app(scope, one.receive, one.send))
    task.add_done_callback(lambda _: one.ended.set())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_numbers_say_nothing_else(house):
    await house.ask()
    browser, _ = await house.sits_down("ada")
    page = await browser.get(f"{LIVE}?once=yes")
    assert json.loads(page.body) == {
        "questions": 1,
        "definitions": 0,
        "failing": 0,
        "stopped": False,
    }
    assert page.headers["cache-control"] == "no-store"


async def test_a_stream_tells_of_a_new_question_and_nothing_is_on_record_for_it(house):
    browser, _ = await house.sits_down("ada")
    before = house.methods
    async with listening(house, browser) as stream:
        assert (await stream.events.get())["questions"] == 0
        await house.ask()
        assert (await stream.events.get())["questions"] == 1
    assert house.methods == before


@pytest.mark.parametrize("ending", ["role", "session"])
async def test_a_stream_ends_with_the_role_or_the_session(house, ending):
    browser, _ = await house.sits_down("ada")
    async with listening(house, browser) as stream:
        await stream.events.get()
        user = house.stores.users.by_subject(HTTP, "ada")
        if ending == "role":
            house.stores.users.change(user.id, groups=frozenset({"users"}), at=house.clock())
        else:
            await house.sessions.end(house.cookies(browser))
        await asyncio.wait_for(stream.ended.wait(), 60)


async def test_a_stream_ends_when_the_gateway_says_so(house):
    browser, _ = await house.sits_down("ada")
    async with listening(house, browser) as stream:
        await stream.events.get()
        house.streams.end()
        await asyncio.wait_for(stream.ended.wait(), 60)


async def test_one_person_has_so_many_streams_and_is_then_told_to_ask(house):
    browser, _ = await house.sits_down("ada")
    async with (
        listening(house, browser) as first,
        listening(house, browser) as second,
        listening(house, browser) as third,
        listening(house, browser) as fourth,
    ):
        for one in (first, second, third, fourth):
            await one.events.get()
        async with listening(house, browser) as fifth:
            await asyncio.wait_for(fifth.ended.wait(), 60)
            assert fifth.status == 204


async def test_of_many_streams_that_one_person_opens_at_once_so_many_are_told(house):
    browser, _ = await house.sits_down("ada")
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(listening(house, browser)) for _ in range(8)]
        async with asyncio.timeout(60):
            while not all(one.status for one in opened):
                await asyncio.sleep(0.001)
        assert sorted(one.status for one in opened) == [200] * 4 + [204] * 4


async def test_a_stranger_learns_of_no_numbers(house):
    stranger = house.browser()
    nowhere = await stranger.get(f"{HTTP}/desk/no/such/page")
    for path in (LIVE, f"{LIVE}?once=yes"):
        page = await stranger.get(path)
        assert (page.status, page.body) == (404, nowhere.body)


def test_the_script_makes_no_markup_and_no_program_of_text():
    script = bytes(Pages().desk_script().body).decode()
    assert not re.search(SINKS, script)
    assert "http" not in script.replace("XMLHttpRequest", "")
    assert len(script.splitlines()) < 200
