"""The decision point for planes: the path's stages before a server and behind, and the door to people."""

from collections.abc import Callable, Mapping
from functools import partial

from gateway.config import Config
from gateway.domain._value import value
from gateway.domain.calls import may_go_on
from gateway.domain.planes import Plane
from gateway.oauth.bindings import SignedBindings
from gateway.oauth.planes import PlaneGate
from gateway.pipeline.access_requests import AccessRequests
from gateway.pipeline.admission import Admission
from gateway.pipeline.approvals import Approvals
from gateway.pipeline.decision_point import DecisionPoint
from gateway.pipeline.interceptions import Interceptions
from gateway.pipeline.plane_calls import profiled
from gateway.pipeline.plane_traffic import PlaneTraffic
from gateway.pipeline.submissions import Submissions
from gateway.ports import ApprovalStore, Authenticator, RunStore
from gateway.wire.authzen import REQUESTS
from gateway.wiring.foundation import new_id, now
from gateway.wiring.identity import Identity
from gateway.wiring.stores import Stores


@value
class Deciding:
    """What planes ask, where they submit what was refused, and what hosts have looked at."""

    decisions: DecisionPoint
    requests: AccessRequests
    interceptions: Interceptions
    traffic: PlaneTraffic
    """Calls that planes show whole."""


def deciding(
    config: Config,
    identity: Identity,
    planes: Mapping[str, Plane],
    store: Stores,
    *,
    admitting: Callable[..., Admission],
    approvals: Approvals,
    questions: ApprovalStore,
    runs: RunStore,
    point: Callable[..., tuple[DecisionPoint, PlaneTraffic]],
) -> Deciding:
    """Return the decision point that `point` makes of an admission that `admitting` makes for planes."""
    gate: Authenticator = PlaneGate(
        planes,
        users=identity.users,
        clients=store.identity.clients,
        own_issuer=config.public_url,
        is_revoked=store.identity.grants.is_revoked,
        people=lambda: store.identity.people,
    )
    # A plane is told what is decided, and nothing of its calls waits here.
    admission = admitting(authenticator=gate, rights=None, require_still=may_go_on)
    endpoint = f"{config.public_url}{REQUESTS}"
    requests = AccessRequests(
        admission=admission,
        approvals=approvals,
        submissions=Submissions(
            store=questions,
            tokens=SignedBindings(
                lambda: identity.ring, issuer=config.public_url, audience=endpoint
            ),
            endpoint=endpoint,
            seal_key=store.keys.seal,
            clock=now,
        ),
        store=questions,
        audit=store.audit,
        profiled=partial(profiled, store.pins),
        clock=now,
        new_id=new_id,
    )
    decisions, traffic = point(admission=admission, requests=requests)
    interceptions = Interceptions(
        decisions, admission=admission, runs=runs, seal_key=store.keys.seal, clock=now
    )
    return Deciding(
        decisions=decisions, requests=requests, interceptions=interceptions, traffic=traffic
    )
