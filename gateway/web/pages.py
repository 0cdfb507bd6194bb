"""Pages for people: templates that escape everything, and headers that leave a page no power."""

import asyncio
import functools
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from starlette.responses import Response

from gateway.web import words

_TEMPLATES = Path(__file__).parent / "templates"
STYLE_PATH = "/assets/douane.css"
DESK_STYLE_PATH = "/assets/desk.css"
DESK_SCRIPT_PATH = "/assets/desk.js"
ICON_PATH = "/assets/douane.svg"

_HEADERS = {
    # No script, no frame, no form that leads elsewhere, nothing from anywhere but our style and sign.
    "content-security-policy": (
        "default-src 'none'; img-src 'self'; style-src 'self'; form-action 'self'; frame-ancestors 'none';"
        " base-uri 'none'"
    ),
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
_DESK = "desk/"
_DESK_HEADERS = {
    **_HEADERS,
    # One script of ours, that no text is ever made markup or a program by (Trusted Types).
    "content-security-policy": (
        _HEADERS["content-security-policy"]
        + "; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
}

_LONGEST_SHOWN = 200


class Pages:
    """Every page of ours: the same look, the same headers, whatever its status."""

    def __init__(self) -> None:
        self._templates = _templates()
        self._style = (_TEMPLATES / "douane.css").read_bytes()
        self._desk_style = (_TEMPLATES / "desk" / "desk.css").read_bytes()
        self._desk_script = (_TEMPLATES / "desk" / "desk.js").read_bytes()
        self._icon = (_TEMPLATES / "douane.svg").read_bytes()

    def page(
        self,
        template: str,
        http_status: int = 200,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        **context: Any,
    ) -> Response:
        """Return the page that `template` makes of `context`, with every header."""
        return Response(
            self._templates[template].render(context),
            http_status,
            headers={
                **(headers or {}),
                **(_DESK_HEADERS if template.startswith(_DESK) else _HEADERS),
            },
            media_type="text/html",
        )

    async def beside(self, template: str, /, **context: Any) -> Response:
        """Return the page, put together beside the event loop: it is as long as what it lists."""
        return await asyncio.to_thread(self.page, template, **context)

    def message(
        self,
        title: str,
        text: str,
        status: int = 200,
        *,
        link: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a page that says one thing, and maybe leads on: `link` is a path and its words."""
        return self.page("message.html", status, headers=headers, title=title, text=text, link=link)

    def redirect(self, location: str) -> Response:
        """Return an answer that sends the browser to `location` with a GET."""
        return Response(status_code=303, headers={**_HEADERS, "location": location})

    def file(self, content: bytes, name: str, media_type: str) -> Response:
        """Return what a browser keeps as a file of that name, and does not show."""
        headers = {**_HEADERS, "content-disposition": f'attachment; filename="{name}"'}
        return Response(content, headers=headers, media_type=media_type)

    def style(self) -> Response:
        """Return the style sheet; it and the sign are what may be kept of ours."""
        return _kept(self._style, "text/css")

    def desk_style(self) -> Response:
        """Return the style sheet of the desk."""
        return _kept(self._desk_style, "text/css")

    def desk_script(self) -> Response:
        """Return the script of the desk."""
        return _kept(self._desk_script, "text/javascript")

    def icon(self) -> Response:
        """Return the sign that a browser shows beside a page's title."""
        return _kept(self._icon, "image/svg+xml")


def _kept(content: bytes, media_type: str) -> Response:
    headers = {**_HEADERS, "cache-control": "public, max-age=3600"}
    return Response(content, headers=headers, media_type=media_type)


def visible(text: str) -> str:
    """Return `text` with everything spelled out that would not be seen, or would mislead.

    Control and format characters, among them those that turn the direction of writing around.
    """
    shown = "".join(
        f"\N{WHITE SQUARE}{ord(c):04X}" if unicodedata.category(c) in _UNSEEN else c for c in text
    )
    return shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "…"


_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})


def when(seconds: float) -> str:
    """Return a moment for people: the gateway's time zone is nobody's, so UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%-d %b %Y, %H:%M UTC")


@functools.cache
def _templates() -> Mapping[str, Template]:
    """Return every template by its name, compiled once for the process."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": visible,
        "when": when,
        "spelled": words.spelled,
        "marked": words.marked,
        "moment": words.moment,
        "clock": words.clock,
        "short": words.short,
    }
    environment.globals |= {
        "style": STYLE_PATH,
        "desk_style": DESK_STYLE_PATH,
        "desk_script": DESK_SCRIPT_PATH,
        "icon": ICON_PATH,
        "href": words.href,
        "shell": words.shell,
        "sides": words.sides,
    }
    names = environment.list_templates(extensions=["html"])
    return MappingProxyType({name: environment.get_template(name) for name in names})
