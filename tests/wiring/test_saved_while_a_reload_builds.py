"""Whatever is saved while another configuration is built is in force once that is done."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.config import Config, load
from gateway.dlp.lists import made_list
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.premises import NOTHING, Premise, Premises
from gateway.domain.tools import UpstreamId
from gateway.errors import Changed, ConfigError
from gateway.policy import reload
from gateway.storage.store import Store
from gateway.upstream.settings import UpstreamSettings
from gateway.wiring import gateway as gateway_room
from gateway.wiring.foundation import new_id, now, open_store
from gateway.wiring.gateway import Gateway
from gateway.wiring.happened import Happened
from gateway.wiring.identity import Identity
from gateway.wiring.reading import Reading, require_same_process
from gateway.wiring.runtime import Runtime
from gateway.wiring.turns import Turns
from tests.policy.policy_questions import ONE_RULE
from tests.policy.test_policy_saved_meanwhile import nothing_is_told, once
from tests.servers.process import nobodys_port
from tests.storage.suite import NOTHING as UNHINTED
from tests.storage.suite import principal

GOOD: Final = {"target": {"name": "good"}}
BETTER: Final = {"target": {"name": "better"}}
MAIL: Final = UpstreamId("mail")


class Place:
    """A gateway's files."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "douane.yaml"
        self.rule = folder / "policies" / "decision.rego"
        self.secret = folder / "mail.token"
        self.rule.parent.mkdir()
        self.rule.write_text(ONE_RULE)
        self.secret.write_text("first")
        mail = {
            "url": f"http://127.0.0.1:{nobodys_port()}/mcp",
            "credential": {"kind": "header", "name": "X-Key", "value": f"file:{self.secret}"},
        }
        self.content: dict[str, Any] = {
            "version": 1,
            "public_url": "http://127.0.0.1:8080",
            "data_dir": str(folder / "var"),
            "policy": {"path": str(self.rule.parent)},
            "servers": {"mail": mail},
        }
        self.write()

    def write(self, **changed: Any) -> None:
        self.content |= changed
        self.file.write_text(json.dumps(self.content))

    def save(self) -> None:
        """Change all there is: the rule, the configuration, a secret."""
        self.rule.write_text(ONE_RULE.replace("good", "better"))
        self.secret.write_text("second")
        self.write(tenant={"domains": ["second.example"]})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(reload, "awatch", nothing_is_told)
    return Place(tmp_path)


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[Gateway]:
    config = load(place.file)
    async with open_store(config) as store:
        gateway = Gateway(config, place.file, await Identity.open(config, store))
        async with gateway.running():
            yield gateway


async def in_force(gateway: Gateway) -> tuple[list[str], list[str], str]:
    runtime = gateway._tenure.runtime
    verdicts = [str((await runtime.policy.evaluate(one)).verdict) for one in (GOOD, BETTER)]
    settings = runtime.crawler.known[MAIL].settings
    assert isinstance(settings, UpstreamSettings)
    assert settings.credential is not None
    assert gateway._config == runtime.config
    return verdicts, sorted(runtime.config.tenant.domains), settings.credential.value


def stepped(step: Callable[..., Any], save: Callable[[], None], *, after: bool) -> Any:
    def sync(*given: Any, **named: Any) -> Any:
        if not after:
            save()
        done = step(*given, **named)
        if after:
            save()
        return done

    async def turned(*given: Any, **named: Any) -> Any:
        if not after:
            save()
        done = await step(*given, **named)
        if after:
            save()
        return done

    return turned if asyncio.iscoroutinefunction(step) else sync


MOMENTS: Final[dict[str, tuple[Any, str, bool]]] = {
    "before the files are read": (gateway_room, "Reading", False),
    "once the files are noted": (gateway_room, "Reading", True),
    "once the configuration is read": (Reading, "config", True),
    "before anything is built": (Gateway, "build", False),
    "once it is built": (Gateway, "build", True),
    "before it is held against the policy in force": (Runtime, "catch_up", False),
    "just before the switch": (Runtime, "catch_up", True),
    "after the switch": (Happened, "reloaded", True),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_is_saved_at_any_moment_of_a_reload_is_in_force_after_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    async with running(place) as gateway:
        assert await in_force(gateway) == (["allow", "deny"], [], "first")
        owner, name, after = MOMENTS[moment]
        step = stepped(getattr(owner, name), once(place.save), after=after)
        monkeypatch.setattr(owner, name, step)
        place.write(tenant={"domains": ["first.example"]})
        await gateway.take_up()
        assert await in_force(gateway) == (["deny", "allow"], ["second.example"], "second")


async def test_a_secret_that_is_changed_while_a_reload_builds_counts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(place) as gateway:
        save = once(lambda: place.secret.write_text("second"))
        monkeypatch.setattr(Runtime, "catch_up", stepped(Runtime.catch_up, save, after=True))
        await gateway.take_up()
        assert (await in_force(gateway))[2] == "second"


NAMED: Final = {
    "ListSection.file": "customers.list",
    "Registration.copies": "client.json",
    "Opa.ca": "opa.pem",
    "AuthzenPoint.ca": "point.pem",
    "Egress.ca": "egress.pem",
}
"""Files that the configuration names, and whose content counts for what is built of it."""
OTHERWISE: Final = {
    **dict.fromkeys(["Policy.candidate", "Bundle.verification_key"], "compared with the policy"),
    **dict.fromkeys(["Tls.certificate", "Tls.key"], "read at the start of the process"),
    **dict.fromkeys(
        [f"GrpcListener.{key}" for key in ("certificate", "key", "client_ca")],
        "read at the start of the process",
    ),
    "Model.path": "is what its digest says, or refused",
    **dict.fromkeys(["Files.read", "Files.write", "Server.folder"], "a local server's own"),
    **dict.fromkeys(
        ["Checkpoints.file", "Export.file", "Retention.archive", "SpoolSection.path"],
        "written, not read",
    ),
    "Config.data_dir": "a folder of the process",
}


def is_path(schema: Any) -> bool:
    inner = schema.values() if isinstance(schema, dict) else schema
    if isinstance(schema, dict) and schema.get("format") == "path":
        return True
    return isinstance(inner, list | type({}.values())) and any(map(is_path, inner))


def test_of_every_path_in_the_configuration_it_is_known_how_its_content_counts() -> None:
    schema = Config.model_json_schema()
    paths = {
        f"{section}.{key}"
        for section, one in {**schema["$defs"], "Config": schema}.items()
        for key, said in one.get("properties", {}).items()
        if is_path(said)
    }
    assert paths == NAMED.keys() | OTHERWISE.keys()


@pytest.mark.parametrize("name", NAMED.values())
def test_every_file_that_is_named_and_read_counts(place: Place, name: str) -> None:
    files = {one: place.file.parent / one for one in NAMED.values()}
    for file in files.values():
        file.write_text(made_list(["Ada Lovelace"], documents=False, key=bytes(16)))
    place.write(
        dlp={"lists": {"customers": {"file": str(files["customers.list"])}}},
        auth={"registration": {"copies": {"https://a.example/c": str(files["client.json"])}}},
        policy={
            **place.content["policy"],
            "engine": "opa",
            "opa": {"url": "https://opa.example", "ca": str(files["opa.pem"])},
            "authzen": {"url": "https://point.example", "ca": str(files["point.pem"])},
        },
        egress={"ca": str(files["egress.pem"])},
    )
    reading = Reading(place.file, load(place.file))
    reading.config({})
    assert reading.still_is()
    files[name].write_text(made_list(["Grace Hopper"], documents=False, key=bytes(16)))
    assert not reading.still_is()


async def test_a_server_that_stays_keeps_what_is_known_of_it(place: Place) -> None:
    async with running(place) as gateway:
        links = gateway._carried.links
        kept, watched = links._links[MAIL], gateway._tenure.runtime.crawler.known[MAIL]
        kept.breaker.failed(None, None, "it was down")
        place.write(tenant={"domains": ["first.example"]})
        await gateway.take_up()
        assert gateway._tenure.runtime.crawler.known[MAIL] is watched
        assert links._links[MAIL] is kept
        assert links._links[MAIL].breaker.count() == 1
        place.secret.write_text("second")
        await gateway.take_up()
        assert gateway._tenure.runtime.crawler.known[MAIL] is not watched
        assert links._links[MAIL] is not kept


async def test_a_policy_that_came_into_force_while_a_reload_built_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retired one has taken the new rule up: at no moment does the older one come back."""
    async with running(place) as gateway:
        build, catch_up, seen = Gateway.build, Runtime.catch_up, []

        async def built(self: Gateway, *given: Any) -> Runtime:
            done = await build(self, *given)
            place.rule.write_text(ONE_RULE.replace("good", "better"))
            await self._tenure.runtime.policy.agree()
            return done

        async def caught_up(self: Runtime, before: Runtime) -> None:
            await catch_up(self, before)
            seen.append(self.policy.digest == before.policy.digest)

        monkeypatch.setattr(Gateway, "build", built)
        monkeypatch.setattr(Runtime, "catch_up", caught_up)
        await gateway.take_up()
        assert seen == [True]


async def test_a_reload_that_is_refused_is_tried_again_if_anything_was_saved_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(place) as gateway:
        mended = once(lambda: place.write(tenant={"domains": ["second.example"]}))
        refuse = require_same_process
        step = stepped(refuse, mended, after=False)
        monkeypatch.setattr(gateway_room, "require_same_process", step)
        place.file.write_text(json.dumps({**place.content, "listen": "127.0.0.1:1"}))
        await gateway.take_up()
        assert (await in_force(gateway))[1] == ["second.example"]
        place.file.write_text("nonsense")
        with pytest.raises(ConfigError):
            await gateway.take_up()
        assert (await in_force(gateway))[1] == ["second.example"]


async def test_whoever_asks_meanwhile_shares_the_next_turn() -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    begun: list[int] = []

    async def work() -> None:
        begun.append(len(begun))
        await gates[begun[-1]].wait()

    turns = Turns(work)
    first = asyncio.create_task(turns.take())
    while not begun:
        await asyncio.sleep(0)
    later = [asyncio.create_task(turns.take()) for _ in range(9)]
    await asyncio.sleep(0)
    later.pop().cancel()
    gates[0].set()
    await first
    assert not any(task.done() for task in later)
    gates[1].set()
    await asyncio.gather(*later)
    assert begun == [0, 1]


@pytest.mark.parametrize("name", ["_switch", "build"])
async def test_a_reload_that_meets_a_bug_is_refused_on_record(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def broken(*_: object) -> None:
        raise OverflowError("too large")

    async with running(place) as gateway:
        with monkeypatch.context() as patched:
            patched.setattr(Gateway, name, broken)
            with pytest.raises(OverflowError):
                await gateway.take_up()
        assert isinstance(gateway._store, Store)
        with closing(gateway._store.log.reader()) as reader:
            (told,) = [one for one in reader.export() if one["code"] == "reload_refused"]
        assert "OverflowError" in told["reasons"][0]["message"]
        place.write(tenant={"domains": ["second.example"]})
        await gateway.take_up()
        assert (await in_force(gateway))[1] == ["second.example"]


async def recorded_on(runtime: Runtime, gateway: Gateway, policy: str) -> frozenset[str]:
    """Return what has changed for a call that `runtime` carries and that `policy` decided."""
    run = await gateway._store.runs.of(principal(), UNHINTED)
    record = AuditRecord(kind=RecordKind.INTENT, time=now(), id=new_id(), fields={})
    people = gateway._store.identity.people
    premises = Premises(run=run.id, version=run.version, policy=policy, people=people)
    try:
        await runtime.decisions._permits._ledger.put(record, premises, NOTHING)
    except Changed as error:
        return error.what
    return frozenset()


async def test_calls_under_way_are_recorded_on_the_policy_in_force_alone(place: Place) -> None:
    async with running(place) as gateway:
        with gateway._tenure.held() as first:
            old = first.policy.digest
            assert await recorded_on(first, gateway, old) == frozenset()
            place.write(allowed_origins=["https://elsewhere.example"])
            await gateway.take_up()
            assert gateway._tenure.runtime is not first
            assert await recorded_on(first, gateway, old) == frozenset()
            place.save()
            await gateway.take_up()
            assert first.policy.digest == old  # which it goes on deciding by
            assert await recorded_on(first, gateway, old) == {Premise.POLICY}
            now = gateway._tenure.runtime.policy.digest
            assert await recorded_on(first, gateway, now) == set()


async def test_calls_under_way_are_not_recorded_once_somebody_else_must_allow_them_too(
    place: Place,
) -> None:
    point = {"url": "https://point.example"}
    async with running(place) as gateway:
        with gateway._tenure.held() as first:
            place.write(policy={**place.content["policy"], "authzen": point})
            await gateway.take_up()
            assert gateway._tenure.runtime.policy.digest == first.policy.digest
            assert await recorded_on(first, gateway, first.policy.digest) == {Premise.POLICY}


async def test_whoever_asked_for_a_reload_can_see_that_it_is_done(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gateway.wiring.gateway")

    def told(gateway: Gateway) -> list[int]:
        counts = [gateway._metrics.taken_up.labels(result) for result in ("ok", "refused")]
        return [int(one._value.get()) for one in counts]

    async with running(place) as gateway:
        assert told(gateway) == [0, 0]
        place.write(tenant={"domains": ["first.example"]})
        await gateway.take_up()
        assert told(gateway) == [1, 0]
        assert f"the configuration in {place.file} is in force" in caplog.messages
        caplog.clear()
        place.write(tenant={"domains": 1})
        with pytest.raises(ConfigError):
            await gateway.take_up()
        assert told(gateway) == [1, 1]
        assert not [one for one in caplog.messages if one.endswith("is in force")]
