"""What people do: approve, withdraw, register, read, prove. Every door leads to this one table."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from gateway.admin.access import AccessDesk
from gateway.admin.alerts import AlertDesk
from gateway.admin.approvals import ApprovalDesk
from gateway.admin.ask import AskDesk
from gateway.admin.audit import AuditDesk
from gateway.admin.clients import ClientDesk
from gateway.admin.commands import Commands
from gateway.admin.counts import CountDesk
from gateway.admin.discovery import DiscoveryDesk
from gateway.admin.exporting import ExportDesk
from gateway.admin.keeping import KeepingDesk
from gateway.admin.labels import LabelDesk
from gateway.admin.operations import KeyDesk, ServerDesk
from gateway.admin.people import People
from gateway.admin.pins import PinDesk
from gateway.admin.policy import PolicyDesk
from gateway.admin.replay import ReplayDesk
from gateway.admin.runs import RunDesk
from gateway.admin.scripts import ScriptDesk
from gateway.admin.stop import StopDesk
from gateway.admin.usage import UsageDesk
from gateway.admin.users import UserDesk
from gateway.admin.verifying import VerifyDesk

_Table = dict[str, Callable[..., Any]]


class Admin:
    """All use cases, one desk a subject, and who may come to them."""

    def __init__(
        self,
        *,
        people: People,
        pins: PinDesk,
        approvals: ApprovalDesk,
        alerts: AlertDesk,
        users: UserDesk,
        access: AccessDesk,
        clients: ClientDesk,
        servers: ServerDesk,
        labels: LabelDesk,
        discovery: DiscoveryDesk,
        runs: RunDesk,
        scripts: ScriptDesk,
        policy: PolicyDesk,
        stop: StopDesk,
        replay: ReplayDesk,
        audit: AuditDesk,
        verifying: VerifyDesk,
        export: ExportDesk,
        keeping: KeepingDesk,
        ask: AskDesk,
        keys: KeyDesk,
        counts: CountDesk,
        usage: UsageDesk,
    ) -> None:
        self.people = people
        self.archive = ask.archive
        self._reads: _Table = {
            "whoami": users.whoami,
            "waiting.counts": counts.waiting,
            "pins.list": pins.list,
            "pins.show": pins.show,
            "pins.diff": pins.diff,
            "pins.review": pins.review,
            "pins.export": pins.export,
            "approvals.list": approvals.list,
            "approvals.show": approvals.show,
            "approvals.standing": approvals.standing.list,
            "approvals.suggest": approvals.suggest,
            "alerts.list": alerts.list,
            "alerts.state": alerts.state,
            "users.list": users.list,
            "sessions.list": access.sessions,
            "consents.list": access.consents,
            "grants.list": access.grants,
            "connections.list": access.connections,
            "clients.list": clients.list,
            "clients.show": clients.show,
            "servers.list": servers.list,
            "servers.suggest_labels": labels.suggest,
            "discovery.core": discovery.core,
            "discovery.suggest": discovery.suggest,
            "discovery.tokens": discovery.tokens,
            "runs.list": runs.list,
            "runs.show": runs.show,
            "runs.picture": runs.picture,
            "runs.programs": scripts.list,
            "policy.status": policy.status,
            "policy.check": policy.check,
            "policy.rules": policy.rules,
            "policy.stopped": stop.state,
            "policy.test": policy.test,
            "policy.explain": replay.explain,
            "audit.query": audit.query,
            "audit.explain": audit.explain,
            "audit.show": audit.show,
            "audit.tail": audit.tail,
            "audit.export": audit.export,
            "audit.bundle": export.bundle,
            "audit.records": export.records,
            "audit.exports": export.list,
            "audit.evidence": export.evidence,
            "audit.stats": audit.stats,
            "audit.lag": audit.lag,
            "audit.verified": verifying.verified,
            "audit.holds": keeping.holds,
            "audit.questions": ask.questions,
            "keys.list": keys.list,
            "usage.list": usage.list,
        }
        # What changes something, and what asks about more than single words.
        self._posts: _Table = {
            "pins.approve": pins.approve,
            "pins.revoke": pins.revoke,
            "pins.check": pins.check,
            "pins.import": pins.import_,
            "approvals.allow": approvals.allow,
            "approvals.deny": approvals.deny,
            "approvals.end": approvals.standing.end,
            "alerts.test": alerts.test,
            "users.add": users.add,
            "users.change": users.change,
            "users.disable": users.disable,
            "users.enable": users.enable,
            "users.remove": users.remove,
            "users.link": users.link,
            "sessions.end": access.end_sessions,
            "consents.withdraw": access.withdraw,
            "grants.revoke": access.revoke,
            "connections.disconnect": access.disconnect,
            "clients.add": clients.add,
            "clients.remove": clients.remove,
            "servers.add": servers.add,
            "servers.remove": servers.remove,
            "servers.refresh": servers.refresh,
            "runs.end": runs.end,
            "runs.relabel": runs.relabel,
            "runs.revoke": scripts.revoke,
            "policy.eval": policy.eval,
            "policy.stop": stop.stop,
            "policy.go": stop.go,
            "policy.replay": replay.replay,
            "clients.names": clients.names,
            "audit.ask": ask.ask,
            "audit.verify": verifying.verify,
            "audit.exports.forget": export.forget,
            "audit.exports.skip": export.skip,
            "audit.archive": keeping.archive,
            "audit.prune": keeping.prune,
            "audit.hold": keeping.hold,
            "audit.release": keeping.release,
            "audit.hash": audit.hash,
            "keys.rotate": keys.rotate,
        }

    @cached_property
    def commands(self) -> Commands:
        """Every use case by its command's name."""
        return Commands(
            {**self._reads, **self._posts},
            reads=self._reads.keys(),
            forbidden=self.people.forbidden,
        )
