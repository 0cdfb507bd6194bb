"""The page on which a person says whether a call may go out."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from gateway.admin.approvals import ApprovalDesk
from gateway.admin.person import Person
from gateway.domain.approvals import Approval, ApprovalRequest, ApprovalState, Span
from gateway.domain.document import canonical
from gateway.domain.identity import User
from gateway.pins.visible import visible
from gateway.signin.errors import NotSignedIn
from gateway.signin.sign_in import APPROVALS_PATH, APPROVE_PATH, SignIn
from gateway.signin.transactions import Purpose
from gateway.turns import finished
from gateway.web.forms import BadForm
from gateway.web.pages import when
from gateway.web.visits import Visit, Visits

_INBOX = (APPROVALS_PATH, "What else waits")


class ApprovalPages:
    """Shows a question to whoever may answer it, and takes the answer."""

    def __init__(
        self,
        visits: Visits,
        sign_in: SignIn,
        desk: ApprovalDesk,
        *,
        person_of: Callable[[User], Person],
        desk_of: Callable[[User], str],
    ) -> None:
        """`desk_of` gives the address of the desk to whoever has one, and nothing to others."""
        self._visits = visits
        self._pages = visits.pages
        self._sign_in = sign_in
        self._desk = desk
        self._person_of = person_of
        self._desk_of = desk_of

    @property
    def routes(self) -> list[Route]:
        return [
            self._visits.route(APPROVALS_PATH, get=self._waiting),
            self._visits.route(f"{APPROVE_PATH}{{id}}", get=self._question, post=self._answer),
        ]

    async def _waiting(self, visit: Visit) -> Response:
        """Show what waits, of what the person may see."""
        user = await self._sign_in.user_of(visit.request.cookies)
        if user is None:
            begun = await self._sign_in.begin(Purpose(name="approvals"), visit.browser)
            return self._pages.redirect(self._sign_in.path_to(begun))
        found = await asyncio.to_thread(self._desk.waiting, self._person_of(user))
        waiting = [one.request for one in found]
        return await self._pages.beside(
            "approvals.html", user=user, waiting=waiting, desk=self._desk_of(user)
        )

    async def _question(self, visit: Visit) -> Response:
        user = await self._sign_in.user_of(visit.request.cookies)
        if user is None:
            purpose = Purpose(name="approve", detail=_id(visit))
            begun = await self._sign_in.begin(purpose, visit.browser)
            return self._pages.redirect(self._sign_in.path_to(begun))
        person = self._person_of(user)
        found = self._desk.seen(person, _id(visit))
        await self._desk.require_may_answer(person, found.request)
        if told := self._settled(found):
            return self._pages.message("Nothing to answer", told, link=_INBOX)
        arguments = await self._desk.disclose(person, found)
        page = partial(
            self._pages.page,
            "approve.html",
            user=user,
            desk=self._desk_of(user),
            request=found.request,
            times=self._desk.standing.times(found.request, person.user_id),
            csrf=visit.token("approve", *_bound(found)),
        )
        # Each character of what is carried is as much work as a node; the line is their calls'.
        who, nodes = f"{user.issuer}|{user.subject}", len(found.request.carried)
        return await finished(who, nodes, _question, page, found.request, arguments)

    def _settled(self, found: Approval) -> str:
        """Say why there is nothing to answer: who has, or why no answer would count; or nothing."""
        void = self._desk.void(found)
        if found.state is ApprovalState.WAITING and not void:
            return ""
        request = found.request
        what = f"{visible(request.called)} at {request.target.server}"
        told = [f"This was about {what}, for {_whose(request)}."]
        if found.at is not None:
            told.append(f"{visible(found.by)} answered it on {when(found.at)}.")
        if void:
            told.append(
                f"No call goes out by it: {void}. Made again, the call is asked about anew."
            )
        else:
            told.append(f"It is {found.state}.")
        return " ".join(told)

    def _then(self, person: Person, found: Approval) -> str:
        """Say what follows a yes: to whoever makes the call, or to whoever answered for them."""
        if self._desk.is_own(person, found.request):
            return "Go back to your application and let it try again."
        request = found.request
        return (
            f"{visible(request.client_name)} can now make this call for "
            f"{'itself' if request.subject == request.client_id else visible(request.subject)}; "
            "it goes out when it is made again."
        )

    async def _answer(self, visit: Visit) -> Response:
        user = await self._sign_in.user_of(visit.request.cookies)
        if user is None:
            raise NotSignedIn
        person = self._person_of(user)
        found = self._desk.seen(person, _id(visit))
        # Bound to what was shown: an answer is to this question and to no other one.
        visit.require_token("approve", *_bound(found))
        id_ = found.request.id
        match visit.form.get("action"):
            case Span.ONCE | Span.RUN as span:
                await self._desk.allow(person, approval=id_, for_run=span == Span.RUN)
                return self._pages.message("Allowed", self._then(person, found), link=_INBOX)
            case Span.STANDING:
                await self._desk.allow(person, approval=id_, standing=True)
                return self._pages.message(
                    "Allowed for good", self._then(person, found), link=_INBOX
                )
            case "deny" | "deny_run" as no:
                await self._desk.deny(person, approval=id_, for_run=no == "deny_run")
                return self._pages.message("Refused", "The call does not go out.", link=_INBOX)
            case _:
                raise BadForm("This form says neither yes nor no.")


def _id(visit: Visit) -> str:
    parameters: dict[str, Any] = visit.request.path_params
    return str(parameters["id"])


def _bound(found: Approval) -> tuple[str, str]:
    return found.request.id, str(found.request.fingerprint)


def _question(
    page: Callable[..., Response], request: ApprovalRequest, arguments: Mapping[str, Any]
) -> Response:
    """Return `page` with all that a question says."""
    return page(
        arguments=[(visible(name), _spelled(said)) for name, said in arguments.items()],
        reasons=[visible(reason.message) for reason in request.reasons],
        evidence=[visible(sentence) for sentence in request.evidence],
        before=visible(request.follows_because),
    )


def _whose(request: ApprovalRequest) -> str:
    """Return whose call it is by a name: a client that acts for itself is its subject, by its id."""
    own = request.subject == request.client_id
    return visible(request.client_name if own else request.subject)


def _spelled(said: Any) -> str:
    return visible(said if isinstance(said, str) else canonical(said).decode())
