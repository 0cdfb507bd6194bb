"""The command line in a folder of its own, with a gateway that runs or does not."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.admin import Admin
from gateway.audit.checkpoint import VerifierKey
from gateway.audit.cosignature import WitnessKey
from gateway.cli import main
from gateway.config import Config
from gateway.domain.tools import Sighting
from gateway.errors import ConfigError
from gateway.ports.sandbox import Confinement
from gateway.storage.keys import audit_key
from gateway.storage.verify import Verification, verify
from gateway.web.door import admin_door
from gateway.wiring.administration import Probed
from gateway.wiring.witnessing import witness_keys_of
from tests.admin.world import Files, Tokens, opened

CONFIG = """\
version: 1
public_url: http://127.0.0.1:8080
alerts:
  webhooks:
    chat: {shape: slack, url: "https://chat.example", events: [approval]}
servers:
  mail:
    url: http://127.0.0.1:9001/mcp
    tools: {send: {effect: egress}}
"""


class Site:
    """A folder with a configuration, and what the commands find behind the wiring."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config_file = folder / "douane.yaml"
        self.config_file.write_text(CONFIG)
        self.data_dir = folder / "var"
        self.files = Files()
        self.seen: Sequence[Sighting] = ()
        self.open_upstreams: tuple[str, ...] = ()
        self.silent_upstreams: dict[str, str] = {}
        self.wrong_issuers: dict[str, str] = {}
        self.unstartable: dict[str, str] = {}
        self.broken_model = ""
        self.shared: Sequence[Mapping[str, str | bool]] = ()
        """What there is to say of a database that is shared."""
        self.held: Mapping[str, Confinement | str] = {"python": Confinement(jailed=True)}
        self.served: list[Path] = []
        self.tokens = Tokens()
        self.log_id = ""

    def run(self, *arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(main, ["--config", str(self.config_file), *arguments], input=text)

    def rows(self, *arguments: str, text: str | None = None, exit_code: int = 0) -> list[Any]:
        result = self.run(*arguments, "--json", text=text)
        assert result.exit_code == exit_code, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    @asynccontextmanager
    async def open_admin(self, config: Config) -> AsyncIterator[Admin]:
        async with opened(config.data_dir, self.files, seen=self.seen) as (admin, store):
            self.log_id = store.log_id
            yield admin

    def serve(self, config: Config, path: Path) -> int:
        self.served.append(path)
        if config.data_dir.exists():
            raise ConfigError("data_dir is in use by process 1")
        return 0

    async def probe(self, config: Config) -> Probed:
        return Probed(
            open=tuple(server for server in config.servers if server in self.open_upstreams),
            silent=self.silent_upstreams,
        )

    async def probe_issuers(self, config: Config) -> Mapping[str, str]:
        return self.wrong_issuers

    async def probe_local(self, config: Config) -> Mapping[str, str]:
        return self.unstartable

    async def probe_programs(self, config: Config) -> Mapping[str, Confinement | str]:
        return self.held if config.code.enabled else {}

    def check_model(self, config: Config) -> None:
        if self.broken_model:
            raise ConfigError(self.broken_model)

    def verify_log(
        self,
        config: Config,
        notes: Sequence[tuple[str, str]],
        witnesses: Sequence[WitnessKey],
        *,
        without_configured: bool,
    ) -> Verification:
        verifier = VerifierKey.of(self.log_id, audit_key(config.data_dir))
        asked = [*witnesses, *([] if without_configured else witness_keys_of(config))]
        return verify(config.data_dir, verifier, checkpoints=notes, witnesses=asked)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run a gateway's admin socket, with the lock on the data, in another thread."""
        ready, done = threading.Event(), threading.Event()

        async def serve() -> None:
            async with (
                opened(self.data_dir, self.files, seen=self.seen, tokens=self.tokens) as (
                    admin,
                    _,
                ),
                admin_door(self.data_dir, admin.commands, admin.people),
            ):
                ready.set()
                await asyncio.to_thread(done.wait)

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        try:
            assert ready.wait(10)
            yield
        finally:
            done.set()
            thread.join()


def wire(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the site's parts where commands look for the wiring."""
    wiring: Any = ModuleType("gateway.wiring")
    wiring.open_admin = site.open_admin
    wiring.serve = site.serve
    wiring.probe = site.probe
    wiring.probe_issuers = site.probe_issuers
    wiring.probe_local = site.probe_local
    wiring.check_model = site.check_model
    wiring.probe_programs = site.probe_programs
    wiring.probe_storage = lambda config: site.shared
    wiring.verify_log = site.verify_log
    wiring.told_of_journal = lambda config: ""
    wiring.policy_files = lambda config: site.files
    monkeypatch.setitem(sys.modules, "gateway.wiring", wiring)
