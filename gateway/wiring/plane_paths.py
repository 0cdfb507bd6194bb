"""The one path as planes have it: the part before a server and the part behind, forwarding left out."""

from collections.abc import Mapping

from gateway.domain.labels import ServerRule
from gateway.domain.tools import UpstreamId
from gateway.pipeline.admission import Admission
from gateway.pipeline.debts import Debts
from gateway.pipeline.decision_point import DecisionPoint, Requests
from gateway.pipeline.labels import Labeller
from gateway.pipeline.plane_limits import PlaneLimits
from gateway.pipeline.plane_permits import PlanePermits
from gateway.pipeline.plane_records import PlaneRecords
from gateway.pipeline.plane_results import PlaneResults
from gateway.pipeline.plane_traffic import PlaneTraffic
from gateway.pipeline.release import Release
from gateway.pipeline.visibility import Visibility
from gateway.ports import Catalogs, Ledger, RunStore
from gateway.wire.jsontext import WireLimits
from gateway.wiring.foundation import new_id, now
from gateway.wiring.stores import Stores


def for_planes(
    *,
    admission: Admission,
    requests: Requests,
    release: Release,
    labels: Labeller,
    visibility: Visibility,
    catalogs: Catalogs,
    runs: RunStore,
    identities: Mapping[UpstreamId, str],
    servers: Mapping[UpstreamId, ServerRule],
    debts: Debts,
    store: Stores,
    ledger: Ledger,
    limits: WireLimits,
) -> tuple[DecisionPoint, PlaneTraffic]:
    """Return who answers questions, and who carries calls that are shown whole.

    `admission` knows principals by what registered planes say of them, and goes by `catalogs` as well.
    """
    possible = PlaneLimits(
        visibility=visibility, pins=store.pins, catalogs=catalogs, identities=identities
    )
    permits = PlanePermits(
        admission=admission, possible=possible, labels=labels, debts=debts, ledger=ledger
    )
    results = PlaneResults(
        admission=admission,
        release=release,
        labels=labels,
        debts=debts,
        audit=store.audit,
        limits=limits,
    )
    records = PlaneRecords(store.audit, clock=now, new_id=new_id)
    decisions = DecisionPoint(
        admission=admission,
        permits=permits,
        possible=possible,
        results=results,
        pins=store.pins,
        runs=runs,
        servers=servers,
        debts=debts,
        records=records,
        requests=requests,
    )
    traffic = PlaneTraffic(
        permits=permits,
        results=results,
        debts=debts,
        records=records,
        seal_key=store.keys.seal,
    )
    return decisions, traffic
