"""One gateway for a whole session of tests, in front of four real servers; everything approved."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.backends import PLANES, left_out_if_shared
from tests.e2e.planes import asking, key_of
from tests.e2e.posting import Poster
from tests.e2e.programs import CODE
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import RULES, SERVERS, Corridor
from tests.running import EVERY_SCOPE, rules_in, running_gateway
from tests.servers import process
from tests.servers.fixtures import everything, notes
from tests.servers.plane import Edge, plane_in_a_thread
from tests.servers.process import RunningServer, free_port

__all__ = ["everything", "notes"]

PLANE = {"servers": {"raw": "raw"}, "scopes": list(EVERY_SCOPE), "duties": ["replace_result"]}


@pytest.fixture(scope="session")
def filesystem(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    logs, files = tmp_path_factory.mktemp("filesystem"), tmp_path_factory.mktemp("files")
    (files / "hello.txt").write_text("hello from a file")
    with process.filesystem(logs, files) as server:
        yield server


@pytest.fixture(scope="session")
def session_raw() -> Iterator[Raw]:
    with raw_in_a_thread() as raw:
        yield raw


@pytest.fixture(autouse=True)
def as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test had the scripted upstream do, the next one's gateway finds it behaving."""
    yield
    if "session_raw" in request.fixturenames:
        request.getfixturevalue("session_raw").forget()


@pytest.fixture
def raw(session_raw: Raw, gateway: Corridor) -> Raw:
    """The scripted upstream, which has seen nothing yet."""
    session_raw.forget()
    return session_raw


@pytest.fixture(scope="session")
def gateway(
    tmp_path_factory: pytest.TempPathFactory,
    everything: RunningServer,
    notes: RunningServer,
    filesystem: RunningServer,
    session_raw: Raw,
) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("gateway")
    urls = {
        "everything": everything.url,
        "notes": notes.url,
        "filesystem": filesystem.url,
        "raw": session_raw.url,
    }
    with running_gateway(
        folder,
        {name: {"url": urls[name], **SERVERS[name]} for name in urls},
        policies=policies_in(folder),
        limits={"calls_per_minute": 100_000, "upstream_failures": 1000},
        pins={"recheck": "1h", "fresh": "1h"},
        **asking(folder, edge=PLANE),
    ) as running:
        for name in urls:
            running.approve_all(name)
        yield Corridor(running)


@pytest.fixture(scope="session")
def plane(gateway: Corridor, session_raw: Raw) -> Iterator[str]:
    """The URL of a plane that carries calls to the scripted upstream, and asks about each."""
    left_out_if_shared(PLANES)
    edge = Edge(douane=gateway.url, key=key_of("edge"), servers={"raw": session_raw.url})
    with plane_in_a_thread(edge, free_port()) as url:
        first = Poster(gateway, "raw", name="carried", by=url)
        # So that the gateway has looked at the lists before a test has them say something else.
        assert first.modern("tools/list", {}).json["result"]["tools"]
        assert first.legacy("tools/list", {}).json["result"]["tools"]
        yield url


@pytest.fixture(params=["gateway", "plane"])
def carriers(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """What carries messages in this test, as `Poster` is told: the gateway itself, and the plane."""
    return {"by": request.getfixturevalue("plane")} if request.param == "plane" else {}


@pytest.fixture
def either(gateway: Corridor, carriers: Mapping[str, str]) -> Poster:
    """`poster`, of either; a plane's is another client, as what it does not report is owed."""
    return Poster(gateway, "raw", name="carried" if carriers else "agent", **carriers)


@pytest.fixture(scope="session")
def programs(
    tmp_path_factory: pytest.TempPathFactory,
    everything: RunningServer,
    notes: RunningServer,
    filesystem: RunningServer,
) -> Iterator[Corridor]:
    """A gateway that runs programs, in front of three of the servers."""
    folder = tmp_path_factory.mktemp("programs")
    urls = {"everything": everything.url, "notes": notes.url, "filesystem": filesystem.url}
    with running_gateway(
        folder / "gateway",
        {name: {"url": urls[name], **SERVERS[name]} for name in urls},
        policies=policies_in(folder),
        limits={"calls_per_minute": 100_000},
        pins={"recheck": "1h", "fresh": "1h"},
        code=CODE,
    ) as running:
        for name in urls:
            running.approve_all(name)
        yield Corridor(running)


@pytest.fixture
def poster(gateway: Corridor) -> Poster:
    """Sends messages to the scripted upstream through the gateway, by hand."""
    return Poster(gateway, "raw")


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A copy of the shipped policies with the rules of these tests, for one test's own gateway."""
    return policies_in(tmp_path)


def policies_in(folder: Path) -> Path:
    policies = folder / "policies"
    rules_in(policies)
    (policies / "tests.rego").write_text(RULES)
    return policies
