"""Gateways that are killed, stopped, cut off and started again, each with its own way to PostgreSQL."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.replicas.relay import Relay
from gateway.storage.kek import new_key
from tests.e2e.own import GENEROUS
from tests.e2e.site import SERVERS
from tests.moved_clock import MovedClock
from tests.running import Running, running_gateway
from tests.servers.process import free_port

SERVER = "raw"
PATIENCE_S = 180.0


@dataclass(frozen=True, kw_only=True)
class Common:
    """What all gateways have alike."""

    folder: Path
    upstream: str
    public_url: str
    port: int
    policies: Path

    def settings(self, address: Path) -> Mapping[str, Any]:
        return {
            "public_url": self.public_url,
            "storage": {"kind": "postgres", "url": f"file:{address}"},
            "auth": {"key_encryption_key": f"file:{self.folder / 'kek'}"},
            "pins": {"recheck": "1h", "fresh": "1h"},
            "approvals": {"most_waiting": 1000, "most_per_hour": 10_000},
            **GENEROUS,
        }


def common(folder: Path, upstream: str, rules: str) -> Common:
    """Lay out in `folder` what all of them read."""
    policies = folder / "policies"
    policies.mkdir(parents=True)
    (policies / "rules.rego").write_text(rules)
    secret(folder / "kek", new_key())
    port = free_port()
    return Common(
        folder=folder,
        upstream=upstream,
        public_url=f"http://127.0.0.1:{port}",
        port=port,
        policies=policies,
    )


def secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


class Member:
    """One of them, by its number."""

    def __init__(
        self, number: int, shared: Common, *, address: str, relay: Relay | None, moves: bool
    ) -> None:
        """Lay out its folder. `moves`: whether its clock can be moved."""
        self.number = number
        self.relay = relay
        self._shared = shared
        self._folder = shared.folder / f"g{number}"
        self._folder.mkdir()
        self._address = self._folder / "url"
        secret(self._address, address)
        self._ports = (free_port() if number else shared.port, free_port())
        self.url = f"http://127.0.0.1:{self._ports[0]}"
        self.clock = MovedClock(self._folder) if moves else None
        self._life = ExitStack()
        self.running: Running | None = None

    @property
    def socket(self) -> Path:
        """At which it takes commands."""
        return self._folder / "data" / "douane.sock"

    @property
    def here(self) -> Running:
        if self.running is None:
            raise RuntimeError(f"gateway {self.number} is not running")
        return self.running

    def start(self) -> None:
        """Return once it is ready, however often it has to be tried: PostgreSQL may be on its way back."""
        patience = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.running = self._life.enter_context(self._begun())
            except RuntimeError:
                if time.monotonic() > patience:
                    raise
            else:
                return

    def kill(self) -> None:
        process, self.running = self.here.process, None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self._life.close()

    def stop(self) -> None:
        """Have its process stand still."""
        os.kill(self.here.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.here.process.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it in good order."""
        if self.running is not None:
            self.running.process.send_signal(signal.SIGCONT)
        self._life.close()
        self.running = None

    def _begun(self) -> Any:
        shared = self._shared
        return running_gateway(
            self._folder,
            {SERVER: {"url": shared.upstream, **SERVERS[SERVER]}},
            policies=shared.policies,
            ports=self._ports,
            environment={} if self.clock is None else self.clock.environment,
            **shared.settings(self._address),
        )
