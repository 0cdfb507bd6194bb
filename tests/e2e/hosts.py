"""A program that is a host: its client at the gateway, and what is on record of it."""

from collections.abc import Sequence
from typing import Any

from tests.e2e.site import Corridor
from tests.running import EVERY_SCOPE, endpoint_of, fetch_token

CLEAN = {"integrity": "trusted", "confidentiality": "public"}


class Host:
    """It has one client for all of its endpoints."""

    def __init__(
        self,
        gateway: Corridor,
        name: str,
        *options: str,
        endpoints: Sequence[str] = ("notes", "raw"),
    ) -> None:
        """Register it; `options` are those of `douane clients add`."""
        self._gateway = gateway
        resources = [w for server in endpoints for w in ("--resource", endpoint_of(server))]
        scopes = [word for scope in EVERY_SCOPE for word in ("--scope", scope)]
        (self.client,) = gateway.running.rows(
            *("clients", "add", name, "--grant", "client_credentials"),
            *(*resources, *scopes, *options),
        )

    def at(self, server: str) -> tuple[str, dict[str, str]]:
        """Return where an endpoint is, and the headers that it is asked with."""
        token = fetch_token(self._gateway.url, server, self.client)
        return self._gateway.endpoint(server), {"Authorization": f"Bearer {token}"}

    def record(self) -> list[dict[str, Any]]:
        """Return what is recorded of calls that went out and of runs, oldest first."""
        client = self.client["client_id"]
        where = f"client = {client} and kind in (intent, run)"
        rows = self._gateway.running.rows("audit", "query", "--where", where, "--order", "oldest")
        return [row for row in rows if row["kind"] == "run" or row.get("target")]

    @property
    def told(self) -> list[tuple[str, str | None, int]]:
        """Return what each record is about, what became of its task, and which run it is in."""
        runs: dict[str, int] = {}
        return [
            (
                row["code"] if row["kind"] == "run" else row["target"],
                row.get("task"),
                runs.setdefault(row["run"], len(runs)),
            )
            for row in self.record()
        ]
