"""People of every role in front of a real browser at the desk of a real gateway."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request

from tests.e2e.own import own_gateway
from tests.e2e.scripted import Raw
from tests.e2e.site import Corridor
from tests.running import Running
from tests.servers.process import ROOT
from tests.signin_e2e.browser import PATIENCE_MS, Chromium, Person
from tests.signin_e2e.house import PASSWORD

_Found = TypeVar("_Found")

AXE = ROOT / "tests" / "node" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PEOPLE: Mapping[str, Sequence[str]] = {
    "ada": ("users", "security"),
    "otto": ("users", "auditors"),
    "rita": ("users", "admins"),
}
"""An approver, an auditor, an administrator."""
Looks = Sequence[tuple[Any, tuple[int, int]]]
LOOKS: Looks = (
    ("light", (1360, 900)),
    ("light", (390, 844)),
    ("dark", (1360, 900)),
    ("dark", (320, 640)),
)
"""Colours differ by scheme, layouts by width: not every pair of them says something new."""
CORNERS = (LOOKS[0], LOOKS[-1])
"""Both schemes, the widest and the narrowest."""
NARROW: Looks = tuple((scheme, LOOKS[-1][1]) for scheme in ("dark", "light"))
"""The narrowest, in both schemes."""

_MOST_STOPS = 80
POLICY = """\
package douane

decision := {"verdict": "ask", "reasons": [{"code": "outside", "message": "it goes outside"}]} if {
	input.phase == "call"
	not is_object(input.approval)
} else := {"verdict": "allow", "reasons": []}
"""


@contextmanager
def desk_gateway(
    folder: Path,
    raw: Raw,
    browser: Chromium,
    people: Iterable[str] = tuple(PEOPLE),
    **settings: Any,
) -> Iterator[Corridor]:
    """Run a gateway whose policy asks about every call, and let these of `PEOPLE` in."""
    (folder / "policies").mkdir()
    (folder / "policies" / "asks.rego").write_text(POLICY)
    with own_gateway(folder / "gateway", raw, folder / "policies", **settings) as corridor:
        for name in people:
            asyncio.run(_welcome(corridor.running, browser, name, PEOPLE[name]))
        yield corridor


async def _welcome(running: Running, browser: Chromium, name: str, groups: Sequence[str]) -> None:
    options = [option for group in groups for option in ("--group", group)]
    (row,) = running.rows("users", "add", name, *options)
    with browser.person() as person:
        await person.enter(row["setup_url"], {"password": PASSWORD, "repeated": PASSWORD})


@dataclass
class Sitting:
    """One person, who is signed in, at the desk."""

    url: str
    person: Person
    troubles: list[str] = field(default_factory=list)
    """What the browser complained of, and requests that left the gateway."""

    async def sign_in(self) -> None:
        await self.person.sign_in(f"{self.url}/sign-in?to=/desk")

    async def visit(self, path: str, looks: Looks = CORNERS) -> tuple[str, list[str]]:
        """Return what a page says, and all that is wrong with it however it looks."""
        return await self.person.run(lambda context: self._visit(context, path, looks))

    async def do(self, path: str, press: str, values: Mapping[str, str] | None = None) -> str:
        """Fill a page's fields in, press the button of that id, and return what is said then."""

        async def act(context: BrowserContext) -> str:
            page = await self._page(context)
            try:
                await page.goto(self.url + path)
                for name, text in (values or {}).items():
                    await page.locator(f"#{name}").fill(text)
                async with page.expect_navigation():
                    await page.locator(f"#{press}").click(no_wait_after=True)
                return await page.inner_text("main")
            finally:
                await page.close()

        return await self.person.run(act)

    async def done(
        self, path: str, press: str, values: Mapping[str, str] | None = None
    ) -> tuple[str, list[str]]:
        """As `do`; return also all that is wrong with the page that comes then, however it looks."""

        async def act(page: Page) -> tuple[str, list[str]]:
            for name, text in (values or {}).items():
                await page.locator(f"#{name}").fill(text)
            async with page.expect_navigation():
                await page.locator(f"#{press}").click(no_wait_after=True)
            return await page.inner_text("main"), await _looked_at(page)

        return await self.on(path, act)

    async def read(self, path: str) -> str:
        """Return what a page says."""

        async def said(page: Page) -> str:
            return await page.inner_text("main")

        return await self.on(path, said)

    async def by_keyboard(self, path: str, *steps: tuple[str, str]) -> str:
        """Walk with the Tab key alone: to each element of that id or selector, and press a key or type there.

        Enter leads on to another page. Returns what is said after the last one.
        """

        async def walk(page: Page) -> str:
            for id_, told in steps:
                await _tab_to(page, id_)
                if told == "Enter":
                    async with page.expect_navigation():
                        await page.keyboard.press(told)
                elif told == "Space":
                    await page.keyboard.press(told)
                else:
                    await page.keyboard.press("ControlOrMeta+a")
                    await page.keyboard.type(told)
            await page.wait_for_load_state()
            return await page.inner_text("main")

        return await self.on(path, walk)

    async def take(self, path: str, press: str, file: Path) -> None:
        """Keep the file that a page gives out."""

        async def keep(page: Page) -> None:
            async with page.expect_download() as coming:
                await page.locator(f"#{press}").click(no_wait_after=True)
            await (await coming.value).save_as(file)

        await self.on(path, keep)

    async def type(self, path: str, *keys: str) -> str:
        """Press keys one after the other on a page; return what is said then."""

        async def act(context: BrowserContext) -> str:
            page = await self._page(context)
            try:
                await page.goto(self.url + path)
                for key in keys:
                    await page.keyboard.press(key)
                await page.wait_for_load_state()
                return await page.inner_text("main")
            finally:
                await page.close()

        return await self.person.run(act)

    async def on(self, path: str, act: Callable[[Page], Awaitable[_Found]]) -> _Found:
        """Do something on a page that stays open meanwhile."""

        async def open_it(context: BrowserContext) -> _Found:
            page = await self._page(context)
            try:
                await page.goto(self.url + path)
                return await act(page)
            finally:
                await page.close()

        return await self.person.run(open_it)

    async def forged(self, path: str, fields: Mapping[str, str]) -> int:
        """Open a page of another site that sends a form to ours; return what that is answered with."""

        async def act(context: BrowserContext) -> int:
            page = await self._page(context)
            inputs = "".join(
                f'<input name="{name}" value="{text}">' for name, text in fields.items()
            )
            form = (
                f'<form method="post" action="{self.url}{path}">{inputs}<button>go</button></form>'
            )
            try:
                await page.set_content(form)
                async with page.expect_navigation() as going:
                    await page.locator("button").click(no_wait_after=True)
                answer = await going.value
                return answer.status
            finally:
                await page.close()

        return await self.person.run(act)

    async def picture(
        self, path: str, file: Path, *, scheme: Any, size: tuple[int, int], whole: bool = True
    ) -> None:
        """Take a picture of a page, `whole` or as much of it as the window shows."""

        async def take(context: BrowserContext) -> None:
            page = await self._page(context)
            try:
                await page.emulate_media(color_scheme=scheme)
                await page.set_viewport_size({"width": size[0], "height": size[1]})
                await page.goto(self.url + path)
                await page.screenshot(path=file, full_page=whole)
            finally:
                await page.close()

        await self.person.run(take)

    async def _page(self, context: BrowserContext) -> Page:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", self._sent)
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        # That a page is refused is what some of these tests are about.
        if message.type in {"error", "warning"} and "status of 4" not in message.text:
            self.troubles.append(message.text)

    def _sent(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.troubles.append(f"asked for {request.url}")

    async def _visit(
        self, context: BrowserContext, path: str, looks: Looks
    ) -> tuple[str, list[str]]:
        page = await self._page(context)
        try:
            await page.goto(self.url + path)
            return await page.inner_text("main"), await _looked_at(page, looks)
        finally:
            await page.close()


async def _looked_at(page: Page, looks: Looks = CORNERS) -> list[str]:
    """Return all that is wrong with the page in these sizes and schemes."""
    found: list[str] = []
    for scheme, (width, height) in looks:
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": height})
        found += [f"{scheme} {width}: {what}" for what in await _wrong(page)]
    return found


async def _tab_to(page: Page, where: str) -> None:
    selector = where if "[" in where else f"#{where}"
    for _ in range(_MOST_STOPS):
        if await page.evaluate("one => document.activeElement.matches(one)", selector):
            return
        await page.keyboard.press("Tab")
    raise LookupError(f"{where} is out of the keyboard's reach on {page.url}")


async def _wrong(page: Page) -> list[str]:
    """Return what axe finds, whether the page is wider than the window, and what has no business there."""
    wide, ours = await page.evaluate(
        """() => [document.documentElement.scrollWidth > window.innerWidth,
            document.querySelectorAll('script:not([src="/assets/desk.js"]), style, [style], iframe, object').length
            + [...document.querySelectorAll('*')].filter(
                one => one.getAttributeNames().some(name => name.startsWith('on'))).length]"""
    )
    if not await page.evaluate("() => 'axe' in window"):
        await page.evaluate(AXE.read_text())
    told = await page.evaluate(
        """async rules => (await axe.run({runOnly: rules})).violations.map(
            one => one.id + ': ' + one.nodes.map(node => node.html.slice(0, 160)).join(' | '))""",
        RULES,
    )
    return [
        *told,
        *(["scrolls sideways"] if wide else []),
        *(["a script, a style or a handler on the page"] if ours else []),
    ]


@contextmanager
def sitting(
    corridor: Corridor, browser: Chromium, name: str, *, scripts: bool = True
) -> Iterator[Sitting]:
    """Open a browser for that person, who is not signed in yet; one that may run no `scripts`."""
    with browser.person(name, PASSWORD, java_script_enabled=scripts) as person:
        yield Sitting(url=corridor.url, person=person)
