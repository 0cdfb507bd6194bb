"""A person in front of Chromium: signs in, consents or denies, types the code of a device."""

import asyncio
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from playwright.async_api import Browser as Engine
from playwright.async_api import BrowserContext, Error, Locator, Page, Response, async_playwright

_Found = TypeVar("_Found")

PATIENCE_MS = 20_000
"""How long one page may take before the person gives up."""
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever a page asks for, nothing but this machine is found.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
_MOST_PAGES = 12
_HERE = """() => ({
    "is there": document.readyState === "complete",
    "leads on": document.querySelector("meta[http-equiv=refresh i]") !== null,
    "has forms": document.querySelector("form") !== null,
    "url": location.href,
})"""


class NoWayOn(Exception):
    """The person sees a page on which there is nothing to do; the text is what it says."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One document that the browser was given."""

    url: str
    status: int
    headers: Mapping[str, str]


@dataclass
class Person:
    """Somebody with a browser profile of their own, a name and a password."""

    name: str
    password: str
    context: BrowserContext
    loop: asyncio.AbstractEventLoop
    seen: list[Seen] = field(default_factory=list)
    """Every document of the last journey, in order."""
    texts: list[str] = field(default_factory=list)
    """What its pages said that waited for the person."""
    clicks: list[str] = field(default_factory=list)
    """What the person did on them."""
    answer: str = "approve"
    """What the person says when asked for consent: `approve` or `deny`."""

    async def follow(self, url: str) -> str:
        """Open `url` and do what the pages ask for; return the client's page where that ends.

        Raises:
            NoWayOn: A page says that it does not go on.

        """
        return await self._there(self._follow(url))

    async def go_through(self, url: str, *, code: str = "") -> str:
        """Open `url` and do what the pages ask for; return what the last one says.

        `code` is what a device shows, and typed where a page asks for it.
        """
        return await self._there(self._go_through(url, code))

    async def sign_in(self, url: str) -> str:
        """Open a page that is for people who are signed in; return what is to be read there."""
        return await self._there(self._sign_in(url))

    async def enter(self, url: str, values: Mapping[str, str]) -> str:
        """Open `url`, fill its form in with `values` and send it; return what is to be read then."""

        async def enter() -> str:
            page = await self._page()
            try:
                await page.goto(url)
                await _fill(page, values)
                return await page.inner_text("body")
            finally:
                await page.close()

        return await self._there(enter())

    async def run(self, work: Callable[[BrowserContext], Coroutine[Any, Any, _Found]]) -> _Found:
        """Do something else with this person's browser, where the browser's event loop runs."""
        return await self._there(work(self.context))

    async def cookies(self) -> Sequence[Mapping[str, Any]]:
        """Return the cookies that the browser keeps."""
        return await self._there(self.context.cookies())

    async def forget(self) -> None:
        """Throw every cookie away, as a browser that was never here."""
        await self._there(self.context.clear_cookies())

    async def _there(self, work: Coroutine[Any, Any, _Found]) -> _Found:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def _page(self) -> Page:
        self.seen.clear()
        self.texts.clear()
        self.clicks.clear()
        page = await self.context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("response", self._note)
        return page

    def _note(self, response: Response) -> None:
        if response.request.is_navigation_request():
            self.seen.append(
                Seen(url=response.url, status=response.status, headers=response.headers)
            )

    async def _follow(self, url: str) -> str:
        page = await self._page()
        try:
            await page.goto(url)
            for _ in range(_MOST_PAGES):
                if not await self._go_on(page):
                    return self._end(page, url)
            raise NoWayOn(f"no end after {_MOST_PAGES} pages: {page.url}")
        finally:
            await page.close()

    async def _go_through(self, url: str, code: str) -> str:
        page = await self._page()
        try:
            await page.goto(url)
            for _ in range(_MOST_PAGES):
                await _arrived(page)
                if await page.locator("input[name=user_code]:visible").count():
                    self.clicks.append("type the code")
                    await _fill(page, {"user_code": code})
                elif not await self._go_on(page):
                    break
            return await page.inner_text("body")
        finally:
            await page.close()

    async def _sign_in(self, url: str) -> str:
        page = await self._page()
        try:
            await page.goto(url)
            if await page.locator("input[name=username]").count():
                await self._go_on(page)
            return await page.inner_text("body")
        finally:
            await page.close()

    def _end(self, page: Page, begun: str) -> str:
        """Return where the journey ended, if that is a page of the client's."""
        status = next((seen.status for seen in reversed(self.seen) if seen.url == page.url), 0)
        if urlsplit(page.url).netloc == urlsplit(begun).netloc or status >= 400:
            raise NoWayOn(f"{status}: {self.texts[-1]}")
        return page.url

    async def _go_on(self, page: Page) -> bool:
        """Do what this page asks for; false if it asks for nothing."""
        here = await _arrived(page)
        if here["leads on"]:
            await page.wait_for_url(lambda now: now != here["url"])
            return True
        if not here["has forms"]:
            self.texts.append(await page.inner_text("body"))
            return False
        self.texts.append(await page.inner_text("body"))
        for fields in (("username", "password"), ("login", "password")):
            if await page.locator(f"input[name={fields[0]}]").count():
                self.clicks.append("sign in")
                await _fill(page, dict(zip(fields, (self.name, self.password), strict=True)))
                return True
        decision = page.locator(f"button[name=action][value={self.answer}]")
        if await decision.count():
            self.clicks.append(self.answer)
            await _press(page, decision)
            return True
        return await self._continue(page)

    async def _continue(self, page: Page) -> bool:
        """Press the one button of a page that has nothing to choose."""
        buttons = page.locator("form button[type=submit], form button:not([type])")
        if await buttons.count() != 1 or await page.locator("input:visible").count():
            raise NoWayOn(self.texts[-1])
        self.clicks.append("continue")
        await _press(page, buttons)
        return True


async def _arrived(page: Page) -> Mapping[str, Any]:
    """Return what is seen at once of a page that is there: one that is still coming has no form yet."""
    while True:
        with suppress(Error):  # it has led on while it was looked at
            here: Mapping[str, Any] = await page.evaluate(_HERE)
            if here["is there"]:
                return here
        await page.wait_for_load_state()


async def _fill(page: Page, values: Mapping[str, str]) -> None:
    form = page.locator("form", has=page.locator(f"[name={next(iter(values))}]"))
    for name, text in values.items():
        await form.locator(f"[name={name}]").fill(text)
    await _press(page, form.locator("[type=submit], button:not([type])").first)


async def _press(page: Page, button: Locator) -> None:
    """Press a button that sends a form, and wait for the page that answers it."""
    async with page.expect_navigation():
        await button.click(no_wait_after=True)


@dataclass(frozen=True, kw_only=True)
class Chromium:
    """A running browser, in which every person has a profile of their own."""

    engine: Engine
    loop: asyncio.AbstractEventLoop

    @contextmanager
    def person(self, name: str = "", password: str = "", **options: Any) -> Iterator[Person]:
        """Open a fresh profile, with Playwright's `options`; it is gone with the context."""
        context = self._wait(self.engine.new_context(**options))
        try:
            yield Person(name=name, password=password, context=context, loop=self.loop)
        finally:
            self._wait(context.close())

    def _wait(self, work: Coroutine[Any, Any, _Found]) -> _Found:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=60)


@contextmanager
def chromium(*, trusted_keys: Sequence[str] = ()) -> Iterator[Chromium]:
    """Run Chromium until the context ends, in a thread of its own: any event loop can use it.

    `trusted_keys` are the SHA-256 of public keys, in base64, that https servers may show without an
    authority that the system knows.
    """
    flags = [*_FLAGS]
    if trusted_keys:
        flags.append(f"--ignore-certificate-errors-spki-list={','.join(trusted_keys)}")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="chromium")
    thread.start()
    stop = asyncio.Event()
    started: asyncio.Future[Engine] = loop.create_future()
    running = asyncio.run_coroutine_threadsafe(_run(flags, started, stop), loop)
    try:
        engine = asyncio.run_coroutine_threadsafe(_first(started, running), loop).result(timeout=60)
        yield Chromium(engine=engine, loop=loop)
    finally:
        loop.call_soon_threadsafe(stop.set)
        try:
            running.result(timeout=60)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _first(started: "asyncio.Future[Engine]", running: Any) -> Engine:
    """Return the engine once it runs, or raise what kept it from running."""
    ended = asyncio.wrap_future(running)
    await asyncio.wait([started, ended], return_when=asyncio.FIRST_COMPLETED)
    if not started.done():
        ended.result()
    return started.result()


async def _run(
    flags: Sequence[str], started: "asyncio.Future[Engine]", stop: asyncio.Event
) -> None:
    # Chromium without its windows: the same pages for a third of the work.
    path = shutil.which("chromium-headless-shell") or "/usr/bin/chromium-headless-shell"
    async with async_playwright() as playwright:
        engine = await playwright.chromium.launch(
            executable_path=path, headless=True, args=list(flags)
        )
        try:
            started.set_result(engine)
            await stop.wait()
        finally:
            await engine.close()


def query_of(url: str) -> Mapping[str, str]:
    """Return the parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
