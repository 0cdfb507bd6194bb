"""What of sign-in lasts as long as the process, whatever the configuration does meanwhile."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

from gateway.admin.approvals import ApprovalDesk
from gateway.admin.commands import Commands
from gateway.admin.journal import Journal as AdminJournal
from gateway.admin.runs import SelfApproval
from gateway.admin.standing import StandingDesk
from gateway.config import Config
from gateway.domain._value import value
from gateway.domain.approvals import ApprovalRequest
from gateway.domain.flow import RunId, Source
from gateway.domain.standing import StandingAnswer, is_as_approved
from gateway.domain.throttle import Throttles
from gateway.domain.tools import OWN, Kind, Pin, PinStatus, Profile
from gateway.errors import GatewayError
from gateway.flow.lapsed import void
from gateway.oauth.present import Present
from gateway.oauth.seen_proofs import SeenProofs
from gateway.pipeline.late_ends import LateEnds
from gateway.ports import ApprovalStore, Ledger, PinStore
from gateway.ports.grants import GrantStore
from gateway.ports.late import LateCalls
from gateway.ports.scripts import ScriptStore
from gateway.ports.standing import StandingAnswers
from gateway.signin.browser import new_secret
from gateway.signin.device import Devices
from gateway.signin.journal import Journal
from gateway.signin.links import SetupLinks
from gateway.signin.passwords import Passwords
from gateway.signin.throttle import Attempts
from gateway.signin.transactions import Transactions
from gateway.storage.ledger import KnownPolicy
from gateway.storage.unsealed import Bounds, Named
from gateway.web.desk.as_client import Seats
from gateway.wire.session import mac
from gateway.wiring.foundation import new_id, now
from gateway.wiring.identity import Identity
from gateway.wiring.stores import Stores, Switch

logger = logging.getLogger(__name__)

_SETTLED_EVERY_S = 60.0
_EVERY_ROLE = ("admin", "approver", "auditor", "user")


@value
class Standing:
    """What a reload must not forget: attempts that were counted, and the first person's link."""

    links: SetupLinks
    passwords: Passwords
    attempts: Attempts
    transactions: Transactions
    devices: Devices
    approvals: ApprovalStore
    answers: StandingAnswers
    scripts: ScriptStore
    ledger: Callable[[KnownPolicy, Named], Ledger]
    """Gives where calls are written down, as long as that policy decides."""
    late: LateCalls
    """Calls whose answer is late."""
    late_ends: LateEnds
    questions: ApprovalDesk
    """Where people come to them, by whatever door."""
    stop: Switch
    """Whether everything is refused."""
    proofs: SeenProofs
    """Which proofs of possession were used."""
    throttles: Throttles
    """How often secrets were guessed at, and clients registered, by address."""
    seats: Seats
    """Who is at the desk, where that has a listener of its own."""
    desk_secret: str = field(repr=False)
    """By which it proves then to be our client."""
    commands: Callable[[], Commands] | None
    """Gives the use cases, for the desk; there is none where no gateway runs."""


def standing(
    config: Callable[[], Config],
    identity: Identity,
    policy: SelfApproval,
    commands: Callable[[], Commands] | None = None,
) -> Standing:
    """Make what lasts as long as the process; `config` gives the configuration in force.

    `policy` says, whenever somebody answers, whether they may for themselves; `commands` gives the
    use cases of the gateway that runs.

    Raises:
        ConfigError: The questions that are kept are sealed with another key.

    """

    def first_groups() -> frozenset[str]:
        roles = config().roles
        return frozenset(group for name in _EVERY_ROLE for group in getattr(roles, name).groups)

    store = identity.store
    stores = store.identity
    journal = Journal(identity.store.audit, clock=now, new_id=new_id, issuer=config().public_url)
    passwords = Passwords(os.urandom)
    kept = identity.store.unsealed(
        identity.vault,
        Bounds(
            approvals=lambda: config().approvals.value,
            tasks=lambda: config().tasks.most_open,
        ),
    )
    present = Present(
        users=stores.users,
        clients=stores.clients,
        planes=dict,
        elsewhere=config().auth.external is not None,
    )
    desk_journal = AdminJournal(store.audit, clock=now, new_id=new_id, place=store.log.placed)
    return Standing(
        links=SetupLinks(
            stores.users,
            passwords,
            journal,
            public_url=config().public_url,
            first_groups=first_groups,
            clock=now,
            random=os.urandom,
            new_id=new_id,
            shared=store.allowance,
            first_secret=None if store.board is None else partial(_first_secret, store),
        ),
        passwords=passwords,
        attempts=Attempts(
            now, by_address=20, by_target=10, shared=store.allowance, what="password"
        ),
        transactions=Transactions(stores.browsers, clock=now, random=os.urandom),
        devices=Devices(
            stores.grants,
            journal,
            clock=now,
            new_id=new_id,
            grant_lifetime_s=config().auth.grant_lifetime,
            shared=store.allowance,
        ),
        approvals=kept.approvals,
        answers=kept.standing,
        scripts=kept.scripts,
        ledger=kept.ledger,
        late=kept.late,
        late_ends=LateEnds(
            store=kept.late, audit=store.audit, claims=store.claims, clock=now, new_id=new_id
        ),
        questions=ApprovalDesk(
            kept.approvals,
            desk_journal,
            clients=stores.clients,
            sources=partial(_sources, identity),
            issuer=config().public_url,
            clock=now,
            pages_at=config().public_url if config().auth.external is None else "",
            lapsed=partial(_lapsed, identity),
            policy=policy,
            standing=StandingDesk(
                kept.standing,
                kept.approvals,
                desk_journal,
                claims=store.claims,
                rules=lambda: config().approvals.value,
                issuer=config().public_url,
                clock=now,
                barred=partial(barred, stores.grants, present),
                approved=partial(_is_approved, identity.store.pins),
                absent=lambda answer: absent(present, answer, answer.given_at),
            ),
        ),
        stop=identity.store.stop(),
        proofs=SeenProofs(since=now(), elsewhere=store.allowance),
        throttles=Throttles(),
        seats=Seats(),
        desk_secret=new_secret(os.urandom),
        commands=commands,
    )


async def settled(desk: StandingDesk) -> None:
    """Put on record, until cancelled, which answers have ended by themselves."""
    while True:
        try:
            await desk.settle()
        except GatewayError as error:
            # Who asks whether one stands is told that it does not, whatever is on record by then.
            logger.warning("an answer's end could not be recorded: %s", error.detail)
        await asyncio.sleep(_SETTLED_EVERY_S)


def _first_secret(store: Stores) -> str:
    """Return what the first person's link holds: all who share this store know it, and nobody else.

    Another one once rights of anybody have ended: an old link lets in nobody after everybody was removed.
    """
    return mac(store.keys.hmac, "the first person", str(store.identity.people))


def _sources(identity: Identity, run: RunId) -> Sequence[Source]:
    found = identity.store.runs.find(run)
    return () if found is None else found.run.sources


def absent(present: Present, answer: StandingAnswer, since: float) -> str:
    """Return who of those whose calls `answer` is for was not there since then."""
    found = present.absence(
        plane="",
        user_id=answer.user_id,
        client_id=answer.client_id,
        client_name=answer.client_name,
    )
    return found.since(since)


async def barred(grants: GrantStore, present: Present, answer: StandingAnswer, since: float) -> str:
    """Return why those whose calls `answer` is for may make none, or could not `since` then."""
    user_id, client_id = answer.user_id, answer.client_id
    why = absent(present, answer, since)
    if why or not user_id:
        return why
    withdrawn = await asyncio.to_thread(grants.withdrawn, user_id, client_id)
    return "what the person granted the client was revoked" if withdrawn else ""


def _lapsed(identity: Identity, request: ApprovalRequest) -> str:
    run = identity.store.runs.find(request.run)
    return void(request, run, approved=_is_approved(identity.store.pins, request))


def _is_approved(pins: PinStore, request: ApprovalRequest | StandingAnswer) -> bool:
    """Whether the definition that a question is about may be called still; ours always may."""
    target = request.target
    if target.server == OWN:
        return True
    found: list[Pin | None] = [pins.find(target, profile) for profile in Profile]
    if target.kind not in {Kind.TOOL, Kind.PROMPT}:
        found += pins.all(target.server)  # a resource, for one, may be approved by its template
    return any(
        pin is not None and pin.status is PinStatus.APPROVED and _is_of(pin, request)
        for pin in found
    )


def _is_of(pin: Pin, request: ApprovalRequest | StandingAnswer) -> bool:
    if isinstance(request, StandingAnswer):
        return is_as_approved(pin, request)
    return pin.approved is not None and pin.approved.digest == request.pin_digest
