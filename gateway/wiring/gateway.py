"""The gateway of one process: the configuration in force, and how another takes its place."""

import asyncio
import logging
import os
import resource
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from gateway.admin.operations import ServerRegistry
from gateway.admin.rows import rfc3339
from gateway.builtin.call_streams import CallStreams
from gateway.builtin.mailboxes import Mailboxes
from gateway.config import Config
from gateway.dlp.values import ValueMemory
from gateway.domain.identity import Credential
from gateway.domain.roster import Roster
from gateway.domain.tools import UpstreamId
from gateway.errors import ConfigError
from gateway.oauth.metadata import PROTECTED_RESOURCE_PATH
from gateway.oauth.resources import ADMIN_API
from gateway.pipeline.conversations import Conversations
from gateway.pipeline.debts import Debts
from gateway.pipeline.late_ends import settled as late_settled
from gateway.pipeline.memory import ProvenanceMemory
from gateway.planes.in_force import InForce
from gateway.web.admin import admin_app
from gateway.web.api import ApiEndpoint
from gateway.web.bounds import Bounds
from gateway.web.connections import Listener
from gateway.web.door import admin_door
from gateway.web.guard import Guarded, guard_of_admins
from gateway.web.metrics import Metrics
from gateway.web.registry import Registry
from gateway.wiring.administration import admin_of, place_of
from gateway.wiring.alike import Alike
from gateway.wiring.background import begun, ended
from gateway.wiring.carried import Carried
from gateway.wiring.code import told_of
from gateway.wiring.departures import ended_with_whom
from gateway.wiring.foundation import new_id, now
from gateway.wiring.happened import Happened, stopped_facts
from gateway.wiring.identity import Identity
from gateway.wiring.in_force import AuthenticatorInForce, PolicyInForce
from gateway.wiring.indexing import kept_up
from gateway.wiring.planes import collected
from gateway.wiring.planes_by_grpc import in_force
from gateway.wiring.quotas import limits_of, prices_of, quotas_of
from gateway.wiring.reading import Reading, require_same_process
from gateway.wiring.recorded import recorded
from gateway.wiring.redacting import held_by, levels_of
from gateway.wiring.registration import Registration, SharedRegistration, tried
from gateway.wiring.runtime import Runtime, runtime
from gateway.wiring.standing import settled, standing
from gateway.wiring.tally import RefusalTally
from gateway.wiring.tenure import Tenure
from gateway.wiring.turns import Turns
from gateway.wiring.watching import Watch

logger = logging.getLogger(__name__)

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
        self.happened = Happened(identity.store.audit)
        self.unread = RefusalTally(identity.store.audit)
        self._metrics.tell_unread(self.unread)
        self._store.audit.waited = self._metrics.waited_for_record
        self._policy = PolicyInForce(
            lambda: self._tenure.runtime.policy,
            lambda: self._tenure.runtime.candidate_digest,
        )
        self._registered = ""
        """What all gateways have registered, as it was taken up here."""
        self._lasting = standing(
            lambda: self._config, identity, self._policy, lambda: self._admin.commands
        )
        self._metrics.tell_tools_apart(Registry(identity.store.pins, lambda: self._config.servers))
        self._metrics.count_questions(lambda: self._lasting.approvals.counts(now=now()))
        self._metrics.stopped.set_function(lambda: self._lasting.stop.holds is not None)
        self.recorded = recorded(lambda: self._config, identity.store, self._metrics)
        self.watch = Watch(config, identity.store)
        self._metrics.count_keeping(lambda: self.watch.spooled, lambda: self.watch.free)
        self._carried = Carried(
            memory=ProvenanceMemory(identity.store.runs.find),
            conversations=Conversations(),
            limits=limits_of(config, identity.store),
            quotas=quotas_of(config, identity.store.used, identity.store.allowance),
            values=ValueMemory(secrets.choice),
            boxes=Mailboxes(new_nonce=new_id),
            calls=CallStreams(new_nonce=new_id),
            debts=Debts(
                identity.store.debts,
                runs=identity.store.runs,
                audit=identity.store.audit,
                clock=now,
            ),
        )
        self._metrics.count_quotas(self._carried.quotas.fullest())
        self._metrics.count_owed(lambda: self._carried.debts.held)
        self._alike = Alike(identity.store.board, lambda: self._config)
        self._current: Tenure | None = None
        self._planes: Mapping[str, float] = {}
        """Those that may ask, and since when they do without a break; 0 for since the start."""
        self._ending: set[asyncio.Task[None]] = set()
        self._reloads = Turns(self._take_up)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Put the first configuration in force and open the door for the command line."""
        self._current = await Tenure.begin(self._config, self.build, self._metrics)
        self._carried.links.watched = self._current.runtime.crawler.known
        self._planes = dict.fromkeys(self._current.runtime.names_of_planes, 0.0)
        self._current.runtime.announce()
        self.happened.stands_still(self._lasting.stop.holds)
        watching = begun(self._identity.watch(), "watching identity providers")
        collecting = begun(collected(self._carried.debts), "settling what planes owe")
        leaving = begun(self._ended_with_whom(), "ending what nobody is there for")
        comparing = begun(self._alike.follow(), "comparing configurations")
        settling = begun(settled(self._lasting.questions.standing), "settling standing answers")
        ending = begun(late_settled(self._lasting.late_ends), "ending tasks")
        try:
            authenticator = AuthenticatorInForce(lambda: self._tenure.runtime)
            with admin_of(
                lambda: self._config,
                self._identity,
                authenticator,
                links=self._lasting.links,
                questions=self._lasting.questions,
                scripts=self._lasting.scripts,
                policy=self._policy,
                stop=self._lasting.stop,
                servers=self._servers,
                look=self._look,
                followers=lambda: self.recorded.at_work,
                registry=self._registry(),
                alerting=self.recorded.alerting,
            ) as admin:
                self._admin = admin
                door = admin_door(self._config.data_dir, admin.commands, admin.people)
                async with door, kept_up(admin.archive):
                    self._greet()
                    yield
        finally:
            await ended(watching)
            await ended(settling)
            await ended(ending)
            await ended(leaving)
            await ended(comparing)
            await ended(collecting)
            if self._roster is not None:
                self._roster.stop()
            await self._reloads.end()
            await self._carried.calls.aclose()
            await asyncio.gather(self._tenure.end(), *self._ending)

    def _registry(self) -> ServerRegistry:
        """Return where servers are registered; from now on others may register some as well."""
        board, current = self._store.board, lambda: self._config
        if board is None:
            return Registration(current, environ=os.environ, take_up=self.take_up)
        roster = board.roster
        roster.admit = partial(tried, current=current, environ=os.environ, file=self._path)
        roster.changed = self.reload
        if roster.text:
            self.reload()
        return SharedRegistration(
            current,
            environ=os.environ,
            take_up=self.take_up,
            roster=roster,
            agree=self._agreed_on,
        )

    async def _agreed_on(self, before: str, after: str) -> None:
        await self._tenure.runtime.policy.register(before, after)

    @property
    def _roster(self) -> Roster | None:
        return None if self._store.board is None else self._store.board.roster

    async def _ended_with_whom(self) -> None:
        await ended_with_whom(
            self._identity,
            self._carried.debts,
            self._lasting.approvals,
            lambda: self._planes,
            elsewhere=self._config.auth.external is not None,
        )

    def _greet(self) -> None:
        """Tell the operator how the first person gets in, once, where only they can read it."""
        if self._config.auth.mode == "embedded" and (link := self._lasting.links.first()):
            print(f"nobody can sign in yet; the first person opens {link}", flush=True)  # noqa: T201 - not into the log

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request by the configuration in force (ASGI)."""
        await self._tenure.serve(scope, receive, send)

    @contextmanager
    def for_planes(self) -> Iterator[InForce]:
        """Keep the configuration in force for one call of a plane that asks by gRPC."""
        with self._tenure.held() as built:
            yield in_force(built, self._metrics.refused_unread)

    async def serve_desk(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of the desk's own listener by the configuration in force (ASGI)."""
        await self._tenure.serve(scope, receive, send, at_desk=True)

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

    def reload(self) -> None:
        """Put the files' configuration in force soon; files that cannot be used change nothing."""
        self._reloads.soon()

    async def take_up(self) -> None:
        """Put in force what the files say now, one change of the configuration after another.

        Raises:
            ConfigError: It cannot be used, and nothing has changed; that is logged and recorded.

        """
        await self._reloads.take()

    async def _take_up(self) -> None:
        """Put in force what the files say, again and again until they still say it afterwards."""
        refused: list[ConfigError] = []
        tries = 0
        while True:
            tries += 1
            current = self._current
            reading = await asyncio.to_thread(Reading, self._path, self._config, self._roster)
            try:
                await self._switch(reading)
                # Last, for whoever asked for it and waits to see it.
                self._metrics.taken_up.labels("ok").inc()
                logger.info("the configuration in %s is in force", self._path)
            except ConfigError as error:
                self._metrics.taken_up.labels("refused").inc()
                problems = "; ".join(error.problems) or error.public
                logger.error("the configuration was refused, the one in force stays: %s", problems)  # noqa: TRY400 - no bug, no traceback
                await self.happened.reload_refused(self._config, problems)
                refused.append(error)
            except Exception as error:
                if self._current is current:
                    self._metrics.taken_up.labels("refused").inc()
                    told = f"it met a bug, which the log tells: {type(error).__name__}"
                    await self.happened.reload_refused(self._config, told)
                raise
            if await asyncio.to_thread(reading.still_is):
                break
        if len(refused) == tries:
            raise refused[-1]

    async def _switch(self, reading: Reading) -> None:
        config = await asyncio.to_thread(reading.config, os.environ)
        require_same_process(self._config, config)
        tenure = await Tenure.begin(config, self.build, self._metrics)
        retired = self._tenure
        try:
            await tenure.runtime.catch_up(retired.runtime)
        except BaseException:
            await tenure.end()
            raise
        # Nothing is awaited between: what the retired one has in force is not newer.
        self._current = tenure
        names = tenure.runtime.names_of_planes
        self._planes = {name: self._planes.get(name, now()) for name in names}
        tenure.runtime.succeed(retired.runtime)
        self._carried.links.watched = tenure.runtime.crawler.known
        before, self._config = self._config, config
        self._registered = reading.registered or ""
        self._store.record_by(levels_of(config), held_by(config, os.environ))
        self._carried.quotas.price_by(prices_of(config))
        retired.runtime.crawler.hand_over()
        ending = asyncio.create_task(retired.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        await self.happened.reloaded(before, config, tenure.runtime.policy.digest)
        tenure.runtime.announce()
        await tenure.runtime.policy.agree()

    @property
    def listener(self) -> Listener:
        """How connections of the public listener behave."""
        # The other half of the descriptors is for upstreams, the log and the policy.
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        unlimited = descriptors == resource.RLIM_INFINITY
        most = _MOST_CONNECTIONS if unlimited else min(_MOST_CONNECTIONS, descriptors // 2)
        return Listener(Bounds(connections=most), self._metrics.refused_unread)

    def admin_app(self) -> Guarded:
        """Return the application of the admin listener."""
        listen = self._config.admin_listen
        guard = guard_of_admins((listen.host, listen.port), _API_BYTES)
        api = ApiEndpoint(
            self._admin.commands,
            self._admin.people,
            most_bytes=guard.request_bytes,
            client_address=self._peer_of,
            clock=now,
            resource_metadata=f"{self._config.public_url}{PROTECTED_RESOURCE_PATH}{ADMIN_API}",
            refused_unread=self._metrics.refused_unread,
            proven=self._proven,
            proofs=lambda: self._tenure.runtime.authorization.metadata.proofs_for(ADMIN_API),
        )
        return admin_app(
            metrics=self._metrics,
            checks=self._checks,
            facts=lambda: {
                **told_of(self._tenure.runtime.engine),
                **self.recorded.facts(),
                **self.watch.facts(),
                **stopped_facts(self._lasting.stop),
                **self._tenure.runtime.policy.agreement.facts,
                **self._alike.facts,
                **self._tenure.runtime.search.facts(),
            },
            guard=guard,
            client_address=self._peer_of,
            api=api,
        )

    def _peer_of(self, scope: Scope) -> str:
        """Return whom a request of the admin listener is from, by the proxies that are trusted now."""
        return self._tenure.client_address(scope)

    def _proven(self, method: str, path: str, token: str, proofs: Sequence[str]) -> Credential:
        proven = self._tenure.runtime.authorization.proven
        return proven.read(method, path, token, proofs, endpoint=ADMIN_API)

    async def started(self) -> None:
        """Record what runs from now on."""
        await self.happened.started(
            self._config, self._tenure.runtime.policy.digest, self._lasting.stop.holds
        )

    async def stopped(self) -> None:
        """Record that nothing more is carried."""
        await self.happened.stopped(self._config, self._tenure.runtime.policy.digest)

    @property
    def _tenure(self) -> Tenure:
        if self._current is None:
            raise ConfigError("the gateway is not running")
        return self._current

    async def _look(self, name: str) -> None:
        await self._tenure.runtime.crawler.crawl(UpstreamId(name))

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
        policy = self._tenure.runtime.policy
        if not policy.digest:
            wrong["policy"] = "no policy is in force"
        elif problem := policy.agreement.problem:
            wrong["policy"] = problem
        if self._roster is not None and self._roster.text != self._registered:
            wrong["servers"] = (
                "what is registered at all gateways is not taken up here yet; the log says why"
            )
        if problem := self._alike.problem:
            wrong["configuration"] = problem
        return wrong
