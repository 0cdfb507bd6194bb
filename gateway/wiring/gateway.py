"""The gateway of one process: the configuration in force, and how another takes its place."""

import asyncio
import logging
import os
import resource
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from gateway.admin.rows import rfc3339
from gateway.builtin.mailboxes import Mailboxes
from gateway.config import Config, load
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.decisions import Decision
from gateway.domain.identity import Credential, Principal
from gateway.errors import AuditUnavailable, ConfigError
from gateway.oauth.metadata import PROTECTED_RESOURCE_PATH
from gateway.oauth.resources import ADMIN_API
from gateway.pipeline.conversations import Conversations
from gateway.pipeline.limits import CallLimits
from gateway.pipeline.memory import ProvenanceMemory
from gateway.ports import PolicyEngine
from gateway.web.admin import admin_app
from gateway.web.api import ApiEndpoint
from gateway.web.app import PublicApp
from gateway.web.connections import BoundedConnection, Bounds, bounded_by
from gateway.web.door import admin_door
from gateway.web.guard import guard_for
from gateway.web.mcp import McpEndpoint
from gateway.web.metrics import Metered, Metrics
from gateway.web.peers import client_address
from gateway.web.registry import Registry
from gateway.wire.jsontext import WireLimits
from gateway.wiring.administration import admin_of, place_of
from gateway.wiring.background import begun, ended
from gateway.wiring.carried import Carried
from gateway.wiring.code import told_of
from gateway.wiring.foundation import new_id, now
from gateway.wiring.identity import Identity
from gateway.wiring.registration import Registration
from gateway.wiring.runtime import Runtime, runtime
from gateway.wiring.standing import standing

logger = logging.getLogger(__name__)

DRAIN_S = 25
"""How long calls under way may go on when the gateway stops, or another configuration comes."""

_API_BYTES = 8 << 20
"""A lock file of tens of thousands of pins fits."""
_FIRST_CRAWL_S = 10.0
_MOST_CONNECTIONS = 10_000


class Gateway:
    """The configuration in force, and what is around it for the life of the process."""

    def __init__(self, config: Config, path: Path, identity: Identity) -> None:
        self.draining = False
        self._config = config
        self._path = path
        self._identity = identity
        self._store = identity.store
        self._metrics = Metrics()
        self._lasting = standing(lambda: self._config, identity)
        self._metrics.tell_tools_apart(Registry(identity.store.pins, lambda: self._config.servers))
        self._metrics.count_questions(lambda: self._lasting.approvals.counts(now=now()))
        self._carried = Carried(
            memory=ProvenanceMemory(),
            conversations=Conversations(),
            limits=CallLimits(calls_per_minute=config.limits.calls_per_minute, clock=now),
            boxes=Mailboxes(new_nonce=new_id),
        )
        self._current: Tenure | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._changing = asyncio.Lock()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Put the first configuration in force and open the door for the command line."""
        self._current = await Tenure.begin(self._config, self)
        watching = begun(self._identity.watch(), "watching identity providers")
        try:
            policy = PolicyInForce(lambda: self._tenure.runtime.policy)
            authenticator = AuthenticatorInForce(lambda: self._tenure.runtime)
            with admin_of(
                lambda: self._config,
                self._identity,
                authenticator,
                links=self._lasting.links,
                questions=self._lasting.questions,
                policy=policy,
                servers=self._servers,
                registry=Registration(
                    lambda: self._config, environ=os.environ, take_up=self.take_up
                ),
            ) as admin:
                self._admin = admin
                async with admin_door(self._config.data_dir, admin.commands, admin.people):
                    self._greet()
                    yield
        finally:
            await ended(watching)
            await asyncio.gather(self._tenure.end(), *self._ending)

    def _greet(self) -> None:
        """Tell the operator how the first person gets in, once, where only they can read it."""
        if self._config.auth.mode == "embedded" and (link := self._lasting.links.first()):
            print(f"nobody can sign in yet; the first person opens {link}", flush=True)  # noqa: T201 - not into the log

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request by the configuration in force (ASGI)."""
        await self._tenure.serve(scope, receive, send)

    def drain(self) -> None:
        """Say in /readyz that this ends, and end whatever waits for no answer."""
        self.draining = True
        self._tenure.end_listening()

    async def build(self, config: Config, stack: AsyncExitStack) -> Runtime:
        """Build a runtime and begin to crawl for it; `stack` takes it down."""
        built = await stack.enter_async_context(
            runtime(config, self._identity, self._lasting, self._metrics, self._carried)
        )
        await built.crawler.first_pass(_FIRST_CRAWL_S)
        crawling = begun(built.crawler.run(), "reading servers' lists")
        stack.push_async_callback(ended, crawling)
        return built

    async def reload(self) -> None:
        """Put the file's configuration in force; a file that cannot be used changes nothing."""
        with suppress(ConfigError):
            await self.take_up()

    async def take_up(self) -> None:
        """Put what the files say in force, one change of the configuration after another.

        Raises:
            ConfigError: It cannot be used, and nothing has changed; that is logged and recorded.

        """
        async with self._changing:
            try:
                config = load(self._path, os.environ)
                _require_same_process(self._config, config)
                tenure = await Tenure.begin(config, self)
            except ConfigError as error:
                problems = "; ".join(error.problems) or error.public
                logger.error("the configuration was refused, the one in force stays: %s", problems)  # noqa: TRY400 - no bug, no traceback
                await self.record("reload_refused", problems, kind=RecordKind.CONFIG)
                raise
            retired, self._current = self._tenure, tenure
            self._config = config
            await self.record("reloaded", str(self._path), kind=RecordKind.CONFIG)
            ending = asyncio.create_task(retired.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def app_of(self, built: Runtime) -> PublicApp:
        """Return the application of the public listener for one configuration."""
        config = built.config
        guard = guard_for(
            config.public_url,
            (config.listen.host, config.listen.port),
            config.allowed_origins,
            config.limits.request_bytes,
        )
        address = client_address(config.trusted_proxies)
        mcp = McpEndpoint(
            carrier=Metered(built.pipeline, self._metrics),
            aggregate=built.aggregate,
            servers=config.servers,
            guard=guard,
            limits=WireLimits(json_depth=config.limits.json_depth),
            metrics=self._metrics,
            client_address=address,
            new_id=new_id,
        )
        return PublicApp(
            mcp=mcp,
            sign_in=built.authorization.routes,
            guard=guard,
            metrics=self._metrics,
            client_address=address,
        )

    @property
    def connections(self) -> type[BoundedConnection]:
        """How connections of the public listener behave."""
        # The other half of the descriptors is for upstreams, the log and the policy.
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        unlimited = descriptors == resource.RLIM_INFINITY
        most = _MOST_CONNECTIONS if unlimited else min(_MOST_CONNECTIONS, descriptors // 2)
        refusals = self._metrics.refusals
        return bounded_by(Bounds(connections=most), lambda code: refusals.labels(code).inc())

    def admin_app(self) -> Starlette:
        """Return the application of the admin listener."""
        listen = self._config.admin_listen
        guard = guard_for(f"http://{listen}", (listen.host, listen.port), (), _API_BYTES)
        api = ApiEndpoint(
            self._admin.commands,
            self._admin.people,
            guard=guard,
            client_address=client_address(self._config.trusted_proxies),
            clock=now,
            resource_metadata=f"{self._config.public_url}{PROTECTED_RESOURCE_PATH}{ADMIN_API}",
        )
        return admin_app(
            metrics=self._metrics,
            checks=self._checks,
            facts=lambda: told_of(self._tenure.runtime.engine),
            guard=guard,
            api=api,
        )

    async def record(
        self, code: str, message: str, *, kind: RecordKind = RecordKind.SYSTEM
    ) -> None:
        """Record something that happened to the process itself."""
        fields = {"code": code, "reasons": [{"code": code, "message": message}]}
        record = AuditRecord(kind=kind, time=now(), id=new_id(), fields=fields)
        try:
            await self._store.audit.append(record)
        except AuditUnavailable:
            logger.exception("%s could not be recorded", code)

    @property
    def _tenure(self) -> "Tenure":
        if self._current is None:
            raise ConfigError("the gateway is not running")
        return self._current

    def _servers(self) -> Sequence[Mapping[str, Any]]:
        places = {name: place_of(server) for name, server in self._config.servers.items()}
        return [
            {
                "server": one.server,
                "url": places.get(one.server, ""),
                "status": "connect" if one.waits else "failing" if one.error else "ok",
                "profiles": sorted(profile.value for profile in one.profiles),
                "checked_at": None if one.seen_at is None else rfc3339(one.seen_at),
                "error": one.error,
            }
            for one in self._tenure.runtime.crawler.status()
        ]

    async def _checks(self) -> Mapping[str, str]:
        wrong: dict[str, str] = {}
        if self.draining:
            wrong["drain"] = "the gateway is stopping"
        if problem := await self._store.problem():
            wrong["audit"] = problem
        if not self._tenure.runtime.policy.digest:
            wrong["policy"] = "no policy is in force"
        return wrong


class Tenure:
    """A configuration's time in force."""

    def __init__(self, built: Runtime, app: PublicApp, stack: AsyncExitStack) -> None:
        self.runtime = built
        self._app = app
        self._stack = stack
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    async def begin(cls, config: Config, gateway: Gateway) -> "Tenure":
        """Build what `config` needs; it ends with `end`."""
        async with AsyncExitStack() as stack:
            built = await gateway.build(config, stack)
            return cls(built, gateway.app_of(built), stack.pop_all())

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request to its end, also if another configuration comes into force."""
        self._under_way += 1
        self._idle.clear()
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._idle.set()

    def end_listening(self) -> None:
        """End the streams on which clients only listen; they may come back for another one."""
        self._app.end_listening()

    async def end(self) -> None:
        """Take it down once its calls are done; what goes on too long fails with its connection."""
        self.end_listening()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self._idle.wait()
        await self._stack.aclose()


class AuthenticatorInForce:
    """Whoever checks tokens in the configuration in force."""

    def __init__(self, current: Callable[[], Runtime]) -> None:
        self._current = current

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        return await self._current().authorization.authenticator.authenticate(credential, endpoint)


class PolicyInForce:
    """The policy of whatever configuration is in force."""

    def __init__(self, current: Callable[[], PolicyEngine]) -> None:
        self._current = current

    @property
    def digest(self) -> str:
        return self._current().digest

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        return await self._current().evaluate(question)

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        return await self._current().evaluate_many(questions)

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        return await self._current().judge_pin(question)

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        return await self._current().pin_approvals(question)

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        return await self._current().self_approval(question)


def _require_same_process(before: Config, after: Config) -> None:
    """Refuse what only a restart can change.

    Raises:
        ConfigError: One of these keys has changed.

    """
    fixed = (
        "public_url",
        "listen",
        "admin_listen",
        "data_dir",
        "auth",
        "audit",
        "tls",
        "limits",
        "egress",
        "runs",
    )
    changed = [key for key in fixed if getattr(before, key) != getattr(after, key)]
    if changed:
        raise ConfigError(
            "the new configuration needs a restart",
            problems=[f"{key}: cannot change while the gateway runs" for key in changed],
        )
