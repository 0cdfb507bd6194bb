"""What is done at the desk beside answers and approvals: each after a page that says what will happen."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response
from starlette.routing import Route

from gateway.domain._value import value
from gateway.errors import BadCommand, NotFound
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.whom import in_words

_FORM = "desk-act"
_BACK = {
    "users": "/desk/people",
    "sessions": "/desk/people",
    "grants": "/desk/people",
    "clients": "/desk/people/clients",
    "runs": "/desk/runs",
    "servers": "/desk/servers",
    "policy": "/desk/policy",
    "approvals": "/desk/approvals/standing",
    "pins": "/desk/pins",
    "alerts": "/desk/alerts",
    "audit": "/desk/record",
}
"""By what a use case is about, the room to which its page leads back."""


@value
class Field:
    """Something that is typed or chosen on the page itself."""

    title: str
    choices: tuple[str, ...] = ()
    long: bool = False
    required: bool = True


_FIELDS: Mapping[str, Field] = {
    "note": Field(title="Why"),
    "name": Field(title="Name"),
    "url": Field(title="URL"),
    "display_name": Field(title="How people read it", required=False),
    "groups": Field(title="Groups, with commas between"),
    "resources": Field(title="Endpoints, with commas between"),
    "scopes": Field(title="Scopes, with commas between: tools:list, tools:call, tools:write"),
    "lock": Field(title="The lock file", long=True),
    "key": Field(title="Who signed it, if it was not this gateway", required=False),
    "integrity": Field(title="What it has read is", choices=("trusted", "untrusted")),
    "confidentiality": Field(title="and", choices=("public", "internal", "private", "secret")),
}


@value
class Act:
    """A use case that changes something, and what it means to whoever presses its button."""

    title: str
    says: str
    """What happens, and what does not."""
    button: str
    chosen: tuple[str, ...]
    """Arguments that the page before has chosen."""
    typed: tuple[str, ...]
    ends: bool
    """Whether it takes something away, and waits for no other sign-in."""
    shows: str
    """What is to be read afterwards, in a sentence; empty where there is nothing."""


def _act(
    title: str,
    says: str,
    button: str,
    chosen: str = "",
    typed: str = "",
    *,
    ends: bool = False,
    shows: str = "",
) -> Act:
    return Act(
        title=title,
        says=says,
        button=button,
        chosen=tuple(chosen.split()),
        typed=tuple(typed.split()),
        ends=ends,
        shows=shows,
    )


_LINK = "The link stands here this once, and nowhere else."

ACTS: Mapping[str, Act] = {
    "users.add": _act(
        "Add a person",
        "Their link is shown once, on the page that follows; whoever opens it chooses their password.",
        "Add them", typed="name display_name groups", shows=_LINK,
    ),
    "users.link": _act(
        "Make another link for this person?",
        "It is shown once. Whoever opens it chooses a new password, and every session of theirs ends.",
        "Make it", "user", shows=_LINK,
    ),
    "users.disable": _act(
        "Disable this person?",
        "Their sessions end and every token that they granted is worthless, at once. Nothing of theirs is forgotten.",
        "Disable them", "user", ends=True,
    ),
    "users.enable": _act(
        "Let this person in again?", "They may sign in again. What was revoked stays revoked.",
        "Enable them", "user",
    ),
    "sessions.end": _act(
        "Sign this person out everywhere?",
        "Every browser in which they are signed in is signed out. What they granted to clients stays.",
        "Sign them out", "user", ends=True,
    ),
    "grants.revoke": _act(
        "Revoke what this client was granted?",
        "Every token of the grant is worthless at once. The client may ask the person again.",
        "Revoke it", "grant", ends=True,
    ),
    "clients.add": _act(
        "Register a client that acts for itself",
        "Its secret is shown once, on the page that follows. It gets tokens for these endpoints alone, such as `/mcp/notes`, and may do what the scopes say.",
        "Register it", typed="name resources scopes", shows="The secret stands here this once, and nowhere else.",
    ),
    "clients.remove": _act(
        "Remove this client?", "It is forgotten, and everything that it was granted is revoked.",
        "Remove it", "client", ends=True,
    ),
    "runs.end": _act(
        "End this run?", "The next call of its client begins another run, which has seen nothing.",
        "End it", "run", "note",  # which vouches for what comes: a clean label is nothing taken away
    ),
    "runs.relabel": _act(
        "Lower this run's label?",
        "You vouch that what it has read is as good as you say. If it has read anything since you looked, nothing is done.",
        "Lower it", "run seen_integrity seen_confidentiality look", "integrity confidentiality note",
    ),
    "servers.refresh": _act(
        "Look at this server now?", "All that it shows is read now. What has changed waits for a person.",
        "Look at it", "name",
    ),
    "servers.add": _act(
        "Register a server",
        "All that it shows waits until somebody approves it. Credentials are set in the configuration or at the command line.",
        "Register it", typed="name url",
    ),
    "servers.remove": _act(
        "Remove this server?", "Calls to it fail from now on. What was approved of it stays on file.",
        "Remove it", "name", ends=True,
    ),
    "pins.import": _act(
        "Take a lock file over",
        "What it approved is approved here, where a server shows exactly that, signed by this gateway or by the key that you name. Nothing else changes.",
        "Take it over", typed="lock key", shows="What became of each of its entries.",
    ),
    "audit.verify": _act(
        "Compute the whole record again?",
        "Every record is hashed anew and compared with the signed checkpoints: half a minute for each million. Nothing is changed, and calls do not wait for it.",
        "Compute it", shows="What was found stands in the record, with your name.",
    ),
    "policy.stop": _act(
        "Stop everything?",
        "Every call is refused from now on, also after a restart, until somebody lets it go on. The note is kept on record.",
        "Stop everything", typed="note", ends=True,
    ),
    "policy.go": _act(
        "Carry calls again?", "Policy decides about each call, as before. If everything was stopped again since you looked, it stays so.",
        "Carry calls", "standstill", "note",
    ),
    "approvals.end": _act(
        "End this answer?", "It stands no more: the next such call asks again.",
        "End it", "approval", "note", ends=True,
    ),
    "alerts.test": _act(
        "Send a test to this webhook?", "It gets a message of the type `ping`, which says nothing.",
        "Send it", "name",
    ),
}  # fmt: skip
"""By the use case's name."""


_DONE: Mapping[str, str] = {"audit.verify": "verified.html"}
"""Pages of their own for what is to be read afterwards."""


class ActPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        return [self._frame.route("/do/{act}", get=self._about, post=self._do)]

    async def _about(self, guest: Guest) -> Response:
        """Say what will happen; nothing happens yet."""
        name, act = _named(guest)
        chosen = {field: guest.query.get(field, "") for field in act.chosen}
        return await self._frame.page(
            guest,
            "act.html",
            name=name,
            act=act,
            fields={field: _FIELDS[field] for field in act.typed},
            chosen=chosen,
            words=await in_words(self._frame, guest, chosen),
            needs_sign_in=not (guest.recent or act.ends),
            csrf=guest.visit.token(_FORM, name, *chosen.values()),
        )

    async def _do(self, guest: Guest) -> Response:
        name, act = _named(guest)
        chosen = {field: guest.form.get(field, "") for field in act.chosen}
        self._frame.require_change(guest, _FORM, name, *chosen.values(), ends=act.ends)
        back = _BACK[name.partition(".")[0]]
        if guest.form.get("action") != "do":
            return self._frame.go(back)
        typed = {field: _read(field, guest.form.get(field, "").strip()) for field in act.typed}
        told = await self._frame.ask(guest, name, **chosen, **typed)
        if not act.shows:
            return self._frame.go(back)
        rows = told if isinstance(told, list) else [told]
        template = _DONE.get(name, "done.html")
        return await self._frame.page(guest, template, act=act, rows=rows, back=back)


def _named(guest: Guest) -> tuple[str, Act]:
    name = str(guest.visit.request.path_params["act"])
    act = ACTS.get(name)
    if act is None:
        raise NotFound("there is nothing of this name to be done here")
    return name, act


def _read(name: str, text: str) -> Any:
    """Return what was typed as the use case takes it; nothing, where that is allowed.

    Raises:
        BadCommand: It is missing, or is no lock file.

    """
    if not text:
        if _FIELDS[name].required:
            raise BadCommand(f"Fill in: {_FIELDS[name].title.lower()}.")
        return None
    match name:
        case "groups" | "resources" | "scopes":
            return [group.strip() for group in text.split(",") if group.strip()]
        case "lock":
            try:
                return orjson.loads(text)
            except orjson.JSONDecodeError as error:
                raise BadCommand("This is no lock file: it is not JSON.") from error
        case _:
            return text
