"""The desk's ready-made questions to the record: few columns of the answer, or all."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from gateway.errors import BadCommand
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.telling import columns, in_short, is_cut, named, over_time

_ASKED = ("source", "server", "tool", "principal", "subject", "since", "after")
_SHELL: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "sent-outside": ((), {"source": "from", "since": "since"}),
    "who-called": (("server", "tool"), {"since": "since"}),
    "denied": ((), {"since": "since"}),
    "flows": ((), {"source": "from", "server": "to", "since": "since"}),
    "top": ((), {"subject": "by", "since": "since"}),
    "undeclared": ((), {"since": "since"}),
    "timeline": (("principal",), {"since": "since"}),
}
"""By the question, what the command line takes as words, and what as options, by their names there."""


class AskPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        return [self._frame.route("/record/ask", get=self._ask, post=self._where_went)]

    async def _ask(self, guest: Guest) -> Response:
        """Answer one of the ready-made questions, or offer them."""
        return await self._answered(guest, guest.query, {})

    async def _where_went(self, guest: Guest) -> Response:
        """Say in which records a value stands: it comes in a form, and so in no address."""
        said = {"question": "where-went", "wide": guest.form.get("wide", "")}
        return await self._answered(guest, said, {"content": guest.form.get("content", "")})

    async def _answered(
        self, guest: Guest, said: Mapping[str, str], more: Mapping[str, Any]
    ) -> Response:
        questions = await self._frame.ask(guest, "audit.questions")
        question, answer, problem = said.get("question", ""), None, ""
        asked = {name: said.get(name) or None for name in _ASKED}
        if question and (question != "where-went" or more):
            try:
                answer = await self._frame.ask(
                    guest, "audit.ask", question=question, **asked, **more
                )
                problem = "" if answer["rows"] else await self._unknown(guest, asked)
            except BadCommand as refusal:
                problem = refusal.public
        wide = said.get("wide") == "yes"
        rows = [] if answer is None else answer["rows"]
        names = await self._frame.names(guest, rows)
        short = not wide and is_cut(question)
        trend, span = over_time(rows)
        return await self._frame.page(
            guest,
            "ask.html",
            trend=trend,
            span=span,
            room="record",
            questions=questions,
            question=question,
            said={name: told or "" for name, told in asked.items()},
            answer=answer,
            rows=[in_short(row, names) if short else named(row, names) for row in rows],
            columns=columns(question, rows, wide=wide),
            wide=wide,
            cut=is_cut(question),
            problem=problem,
            command=_command(question, asked),
        )

    async def _unknown(self, guest: Guest, asked: Mapping[str, str | None]) -> str:
        """Say which server that was asked about is none; nothing if each is one."""
        named = {one for one in (asked["source"], asked["server"]) if one}
        if not named:
            return ""
        known = {row["server"] for row in await self._frame.ask(guest, "servers.list")}
        return "; ".join(f"there is no server {one}" for one in sorted(named - known))


def _command(question: str, asked: Mapping[str, str | None]) -> tuple[list[str], dict[str, Any]]:
    """Return the words and options of the same question at the command line."""
    if question == "denied-by-rule":
        return ["denied"], {"by_rule": True, "since": asked["since"]}
    if question == "where-went":
        return [question, "VALUE"], {}
    words, options = _SHELL.get(question, ((), {}))
    said = [told for name in words if (told := asked[name])]
    return [*filter(None, [question]), *said], {
        option: asked[name] for name, option in options.items()
    }
