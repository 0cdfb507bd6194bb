"""A browser without a screen: it keeps cookies, reads pages, fills in forms, and follows hops.

It does what real ones do where that matters here: `__Host-` cookies only as they may be, `Origin: null`
from pages that send no referrer, and `form-action` held against every hop that follows a form.
"""

import asyncio
import http.client
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

MOST_HOPS = 10


@dataclass(frozen=True, kw_only=True)
class Sent:
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    """Lower-case names."""
    body: bytes


Transport = Callable[[Sent], Awaitable[Answer]]


@dataclass
class Form:
    action: str
    method: str
    id: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Page:
    """What a browser shows, and where it stands."""

    url: str
    status: int
    headers: dict[str, str]
    body: str
    leaves_for: str = ""
    """Where a redirect or a refresh leads that the browser cannot follow."""
    text: str = ""
    title: str = ""
    refresh: str = ""
    forms: list[Form] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    """By id."""
    ids: dict[str, str] = field(default_factory=dict)
    """The text inside of each element with an id."""
    elements: set[str] = field(default_factory=set)

    def shows(self, id_: str) -> bool:
        """Whether there is a form of that id."""
        return any(form.id == id_ for form in self.forms)

    def form(self, id_: str = "") -> Form:
        """Return the form of that id, or the only one."""
        found = [form for form in self.forms if not id_ or form.id == id_]
        if len(found) != 1:
            raise LookupError(f"{len(found)} forms {id_!r} on {self.url}: {self.text[:300]}")
        return found[0]


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__()
        self._page = page
        self._texts: list[str] = []
        self._open: list[tuple[str, str, list[str]]] = []
        self._form: Form | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: text or "" for name, text in attrs}
        page = self._page
        page.elements.add(tag)
        if tag == "br":
            self.handle_data(" ")
        if tag not in {"input", "meta", "link", "br"}:
            self._open.append((tag, given.get("id", ""), []))
        if tag == "meta" and given.get("http-equiv") == "refresh":
            page.refresh = given["content"].partition("url=")[2]
        if tag == "a":
            page.links[given.get("id") or given["href"]] = given["href"]
        if tag == "form":
            self._form = Form(given["action"], given["method"], given.get("id", ""))
            page.forms.append(self._form)
        if self._form is not None and given.get("name"):
            if tag == "input" and (given.get("type") != "checkbox" or "checked" in given):
                self._form.fields[given["name"]] = given.get("value", "")
            if tag == "button":
                self._form.buttons.append((given["name"], given.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        opened, id_, texts = self._open.pop()
        if opened != tag:
            raise ValueError(f"<{opened}> is closed by </{tag}> on {self._page.url}")
        whole = " ".join("".join(texts).split())
        if tag == "title":
            self._page.title = whole
        if id_:
            self._page.ids[id_] = whole
        if tag == "form":
            self._form = None

    def handle_data(self, data: str) -> None:
        self._texts.append(data)
        for _, _, texts in self._open:
            texts.append(data)

    def close(self) -> None:
        super().close()
        if self._open:
            raise ValueError(f"not closed on {self._page.url}: {self._open}")
        self._page.text = " ".join("".join(self._texts).split())


class Browser:
    """Follows hops within what `reaches` says, and stands still in front of anything else."""

    def __init__(
        self,
        transport: Transport,
        *,
        reaches: Callable[[str], bool],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = transport
        self._reaches = reaches
        self.headers = dict(headers or {})
        self.cookies: dict[str, dict[str, str]] = {}
        """By host, then by name."""
        self.set_cookies: list[str] = []
        """Every `Set-Cookie` line, as it came."""

    async def get(self, url: str) -> Page:
        """Go to `url` and to wherever it leads by itself."""
        return await self._go("GET", url, b"", {"sec-fetch-site": "none"}, from_form=False)

    async def follow(self, page: Page, link: str) -> Page:
        """Follow the link of that id."""
        return await self._go("GET", urljoin(page.url, page.links[link]), b"", {}, from_form=False)

    async def submit(self, form: Form, page: Page, **fields: str) -> Page:
        """Send `form` of `page` with `fields` filled in; a button's name and value are a field."""
        filled = urlencode({**form.fields, **fields})
        url = urljoin(page.url, form.action)
        if form.method.lower() == "get":
            return await self._go("GET", f"{url}?{filled}", b"", {}, from_form=True)
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": "null"
            if "no-referrer" in page.headers.get("referrer-policy", "")
            else _origin(page.url),
            "sec-fetch-site": "same-origin" if _origin(page.url) == _origin(url) else "cross-site",
        }
        return await self._go("POST", url, filled.encode(), headers, from_form=True)

    async def send(
        self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Page:
        """Send one request with the cookies of here, and follow nothing."""
        return await self._hop(method, url, body, headers or {})

    async def _go(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, from_form: bool
    ) -> Page:
        start = _origin(url)
        for _ in range(MOST_HOPS):
            page = await self._hop(method, url, body, headers)
            target = page.headers.get("location") if 300 <= page.status < 400 else page.refresh
            if not target:
                return page
            if page.refresh:
                from_form = False
            url = urljoin(url, target)
            if from_form and _origin(url) != start:
                raise PermissionError(f"form-action keeps the browser from {url}")
            if not self._reaches(url):
                page.leaves_for = url
                return page
            if page.status in {307, 308}:
                raise PermissionError("a form's content would be sent on")
            method, body, headers = "GET", b"", {}
        raise RecursionError(url)

    async def _hop(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Page:
        host = urlsplit(url).hostname or ""
        jar = self.cookies.setdefault(host, {})
        cookie = "; ".join(f"{name}={text}" for name, text in jar.items())
        told = {**self.headers, **headers, **({"cookie": cookie} if cookie else {})}
        answer = await self._transport(Sent(method=method, url=url, headers=told, body=body))
        for name, line in answer.headers:
            if name == "set-cookie":
                self._keep(line, jar, secure=url.startswith("https://"))
        page = Page(
            url=url,
            status=answer.status,
            headers=dict(answer.headers),
            body=answer.body.decode(),
        )
        if "text/html" in page.headers.get("content-type", ""):
            reader = _Reader(page)
            reader.feed(page.body)
            reader.close()
        return page

    def _keep(self, line: str, jar: dict[str, str], *, secure: bool) -> None:
        self.set_cookies.append(line)
        for name, morsel in SimpleCookie(line).items():
            host_only = morsel["path"] == "/" and not morsel["domain"] and morsel["secure"]
            if (morsel["secure"] and not secure) or (name.startswith("__Host-") and not host_only):
                continue
            if morsel["max-age"] == "0":
                jar.pop(name, None)
            else:
                jar[name] = morsel.value


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def to_app(app: Any, *, source_ip: str = "192.0.2.7") -> Transport:
    """Return a transport to an ASGI application in this process."""

    async def transport(sent: Sent) -> Answer:
        parts = urlsplit(sent.url)
        head: dict[str, Any] = {}
        body = bytearray()
        waiting = [{"type": "http.request", "body": sent.body, "more_body": False}]

        async def receive() -> Mapping[str, Any]:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                head.update(message)
            else:
                body.extend(message.get("body", b""))

        headers = {"host": parts.netloc, **sent.headers}
        scope = {
            "type": "http",
            "method": sent.method,
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "scheme": parts.scheme,
            "http_version": "1.1",
            "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
            "client": (source_ip, 50000),
            "server": (parts.hostname, parts.port),
        }
        await app(scope, receive, send)
        lines = [(name.decode(), text.decode()) for name, text in head["headers"]]
        return Answer(status=head["status"], headers=lines, body=bytes(body))

    return transport


def over_http(*, timeout_s: float = 10.0) -> Transport:
    """Return a transport to real servers on this machine."""

    def exchange(sent: Sent) -> Answer:
        parts = urlsplit(sent.url)
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port or 80, timeout=timeout_s
        )
        try:
            target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
            connection.request(sent.method, target, sent.body or None, dict(sent.headers))
            response = connection.getresponse()
            lines = [(name.lower(), text) for name, text in response.getheaders()]
            return Answer(status=response.status, headers=lines, body=response.read())
        finally:
            connection.close()

    async def transport(sent: Sent) -> Answer:
        return await asyncio.to_thread(exchange, sent)

    return transport
