"""What people do: approve, withdraw, register, read, prove. Every door leads to this one table."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from gateway.admin.audit import AuditDesk
from gateway.admin.clients import ClientDesk
from gateway.admin.commands import Commands
from gateway.admin.operations import KeyDesk, RunDesk, ServerDesk
from gateway.admin.pins import PinDesk
from gateway.admin.policy import PolicyDesk


class Admin:
    """All use cases, one desk a subject."""

    def __init__(
        self,
        *,
        pins: PinDesk,
        clients: ClientDesk,
        servers: ServerDesk,
        runs: RunDesk,
        policy: PolicyDesk,
        audit: AuditDesk,
        keys: KeyDesk,
    ) -> None:
        self._table: dict[str, Callable[..., Any]] = {
            "pins.list": pins.list,
            "pins.show": pins.show,
            "pins.diff": pins.diff,
            "pins.approve": pins.approve,
            "pins.revoke": pins.revoke,
            "pins.check": pins.check,
            "pins.export": pins.export,
            "pins.import": pins.import_,
            "clients.add": clients.add,
            "clients.list": clients.list,
            "clients.remove": clients.remove,
            "servers.list": servers.list,
            "runs.list": runs.list,
            "runs.show": runs.show,
            "policy.status": policy.status,
            "policy.check": policy.check,
            "policy.test": policy.test,
            "policy.eval": policy.eval,
            "audit.query": audit.query,
            "audit.explain": audit.explain,
            "audit.show": audit.show,
            "audit.tail": audit.tail,
            "audit.export": audit.export,
            "audit.stats": audit.stats,
            "audit.verify": audit.verify,
            "audit.hash": audit.hash,
            "keys.list": keys.list,
        }

    @cached_property
    def commands(self) -> Commands:
        """Every use case by its command's name."""
        return Commands(self._table)
