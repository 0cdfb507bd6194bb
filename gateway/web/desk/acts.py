"""What is done at the desk beside answers and approvals: each after a page that says what will happen."""

from collections.abc import Mapping

from starlette.responses import Response
from starlette.routing import Route

from gateway.domain._value import value
from gateway.errors import BadCommand, NotFound
from gateway.web.desk.frame import Frame, Guest

_FORM = "desk-act"


@value
class Act:
    """A use case that changes something, and what it means to whoever presses its button."""

    title: str
    says: str
    """What happens, and what does not."""
    back: str
    button: str
    fields: tuple[str, ...] = ()
    """Arguments that the page before has chosen."""
    typed: tuple[str, ...] = ()
    """Arguments that are typed here; `note` is one of them where there is one."""
    ends: bool = False
    """Whether it takes something away, and waits for no other sign-in."""


ACTS: Mapping[str, Act] = {
    "users.disable": Act(
        title="Disable this person?",
        says="Their sessions end and every token that they granted is worthless, at once. Nothing of theirs is forgotten.",
        back="/desk/people",
        button="Disable them",
        fields=("user",),
        ends=True,
    ),
    "users.enable": Act(
        title="Let this person in again?",
        says="They may sign in again. What was revoked stays revoked.",
        back="/desk/people",
        button="Enable them",
        fields=("user",),
    ),
    "sessions.end": Act(
        title="Sign this person out everywhere?",
        says="Every browser in which they are signed in is signed out. What they granted to clients stays.",
        back="/desk/people",
        button="Sign them out",
        fields=("user",),
        ends=True,
    ),
    "grants.revoke": Act(
        title="Revoke what this client was granted?",
        says="Every token of the grant is worthless at once. The client may ask the person again.",
        back="/desk/people",
        button="Revoke it",
        fields=("grant",),
        ends=True,
    ),
    "clients.remove": Act(
        title="Remove this client?",
        says="It is forgotten, and everything that it was granted is revoked.",
        back="/desk/people/clients",
        button="Remove it",
        fields=("client",),
        ends=True,
    ),
    "runs.end": Act(
        title="End this run?",
        says="The next call of its client begins another run, which has seen nothing.",
        back="/desk/runs",
        button="End it",
        fields=("run",),
        typed=("note",),
        ends=True,
    ),
    "servers.refresh": Act(
        title="Look at this server now?",
        says="All that it shows is read now. What has changed waits for a person.",
        back="/desk/servers",
        button="Look at it",
        fields=("name",),
    ),
    "servers.add": Act(
        title="Register a server",
        says="All that it shows waits until somebody approves it. Credentials are set in the configuration or at the command line.",
        back="/desk/servers",
        button="Register it",
        typed=("name", "url"),
    ),
    "servers.remove": Act(
        title="Remove this server?",
        says="Calls to it fail from now on. What was approved of it stays on file.",
        back="/desk/servers",
        button="Remove it",
        fields=("name",),
        ends=True,
    ),
    "policy.stop": Act(
        title="Stop everything?",
        says="Every call is refused from now on, also after a restart, until somebody lets it go on. The note is kept on record.",
        back="/desk/policy",
        button="Stop everything",
        typed=("note",),
        ends=True,
    ),
    "policy.go": Act(
        title="Carry calls again?",
        says="Policy decides about each call, as before.",
        back="/desk/policy",
        button="Carry calls",
        typed=("note",),
    ),
    "approvals.end": Act(
        title="End this answer?",
        says="It stands no more: the next such call asks again.",
        back="/desk/approvals/standing",
        button="End it",
        fields=("approval",),
        typed=("note",),
        ends=True,
    ),
    "alerts.test": Act(
        title="Send a test to this webhook?",
        says="It gets a signed message of the type `ping`, which says nothing.",
        back="/desk/alerts",
        button="Send it",
        fields=("name",),
    ),
}
"""By the use case's name."""


class ActPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        return [self._frame.route("/do/{act}", get=self._about, post=self._do)]

    async def _about(self, guest: Guest) -> Response:
        """Say what will happen; nothing happens yet."""
        name, act = _act(guest)
        chosen = {field: guest.query.get(field, "") for field in act.fields}
        return await self._frame.page(
            guest,
            "act.html",
            name=name,
            act=act,
            chosen=chosen,
            needs_sign_in=not (guest.recent or act.ends),
            csrf=guest.visit.token(_FORM, name, *chosen.values()),
        )

    async def _do(self, guest: Guest) -> Response:
        name, act = _act(guest)
        chosen = {field: guest.form.get(field, "") for field in act.fields}
        self._frame.require_change(guest, _FORM, name, *chosen.values(), ends=act.ends)
        if guest.form.get("action") != "do":
            return self._frame.go(act.back)
        typed = {field: guest.form.get(field, "").strip() for field in act.typed}
        if missing := [field for field, told in typed.items() if not told]:
            raise BadCommand(f"Say the {' and the '.join(missing)}.")
        await self._frame.ask(guest, name, **chosen, **typed)
        return self._frame.go(act.back)


def _act(guest: Guest) -> tuple[str, Act]:
    name = str(guest.visit.request.path_params["act"])
    act = ACTS.get(name)
    if act is None:
        raise NotFound("there is nothing of this name to be done here")
    return name, act
