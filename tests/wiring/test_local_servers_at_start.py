"""Whether a local server can be had on this machine is found out before it is started."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gateway.config import Config, parse
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.domain.tools import UpstreamId
from gateway.errors import AuditUnavailable
from gateway.upstream.jail import hides
from gateway.upstream.launch import Launch
from gateway.upstream.reach import read_authority
from gateway.upstream.settings import LocalSettings
from gateway.wiring import probe_local, upstreams
from gateway.wiring.refusals import RefusedEgressReporter
from gateway.wiring.upstreams import upstreams_of


def config(
    at: Path,
    more: Mapping[str, Any] = MappingProxyType({}),
    more_servers: Mapping[str, Any] = MappingProxyType({}),
    **server: Any,
) -> Config:
    servers = {"a": server, **more_servers}
    content = {"version": 1, "public_url": "http://localhost", "servers": servers, **more}
    return parse(json.dumps(content), file=at / "douane.yaml", environ={})


async def local(found: Config) -> LocalSettings:
    (one,) = await upstreams_of(found)
    assert isinstance(one, LocalSettings)
    return one


async def no_jail(_: object) -> str:
    return "bwrap does not work here (setting up uid map: Permission denied)"


async def test_a_server_with_a_jail_is_started_where_jails_can_be_had(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    one = await local(config(tmp_path, command=["sh", "./x"], files={"read": ["r"]}))
    assert one.refused == ""
    assert one.launch.argv == ("/usr/bin/sh", "./x")
    assert (one.launch.folder, one.launch.read) == (tmp_path, (tmp_path / "r",))


async def test_where_no_jail_can_be_had_the_server_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstreams, "problem", no_jail)
    found = config(tmp_path, command=["sh"])
    told = (
        "no jail: bwrap does not work here (setting up uid map: Permission denied); "
        "or write `jail: none`"
    )
    assert (await local(found)).refused == told
    assert await probe_local(found) == {"a": told}


async def test_where_no_jail_can_be_had_one_without_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstreams, "problem", no_jail)
    one = await local(config(tmp_path, command=["sh"], jail="none"))
    assert (one.refused, one.launch.jailed) == ("", False)


async def test_no_jail_is_tried_where_none_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(upstreams, "problem")
    await local(config(tmp_path, command=["sh"], jail="none"))
    await upstreams_of(config(tmp_path, url="http://localhost/mcp"))


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ({"command": ["no-such-tool"]}, "there is no program `no-such-tool`"),
        ({"command": ["sh"], "folder": "gone"}, "gone` is no folder"),
        ({"command": ["sh"], "files": {"read": ["gone"]}}, "gone` is not there"),
        ({"command": ["sh"], "files": {"write": ["var"]}}, "would show the gateway's own data"),
        ({"command": ["sh"], "files": {"read": ["."]}}, "would show the gateway's own data"),
        (
            {"command": ["sh"], "files": {"read": ["t"]}, "environment": {"T": "file:t"}},
            "would show the gateway's own data",
        ),
    ],
    ids=["program", "folder", "file", "data", "above", "secret"],
)
async def test_what_cannot_be_started_says_why(
    tmp_path: Path, server: dict[str, Any], told: str
) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "t").write_text("secret")
    assert told in (await local(config(tmp_path, **server))).refused


@pytest.mark.parametrize("listener", ["tls", "planes"])
async def test_no_listeners_key_is_shown(tmp_path: Path, listener: str) -> None:
    (tmp_path / "keys").mkdir()
    files = {"certificate": "keys/c", "key": "keys/k"}
    more: dict[str, Any] = {
        "tls": {"tls": files, "public_url": "https://localhost"},
        "planes": {"planes": {"grpc": {"listen": "127.0.0.1:8443", **files}}},
    }
    one = await local(config(tmp_path, more[listener], command=["sh"], files={"read": ["keys"]}))
    assert one.refused == f"`{tmp_path / 'keys'}` would show the gateway's own data"


@pytest.mark.parametrize("kept", ["douane.yaml", "policies", "key.pem"])
async def test_no_server_may_change_what_the_gateway_goes_by(tmp_path: Path, kept: str) -> None:
    """Wherever the rest is: a policy that is saved is in force a moment later."""
    at = tmp_path / "etc"
    places = {name: at / name for name in ("douane.yaml", "policies", "key.pem")}
    places[kept] = at / "shared" / kept
    (at / "shared").mkdir(parents=True)
    (tmp_path / "link").symlink_to("etc/shared")
    policy = {
        "path": str(places["policies"]),
        "bundle": {"verification_key": str(places["key.pem"])},
    }
    server: dict[str, Any] = {"command": ["sh"], "files": {"write": [str(tmp_path / "link")]}}
    content: dict[str, Any] = {
        "version": 1,
        "public_url": "http://localhost",
        "data_dir": str(tmp_path / "data"),
        "policy": policy,
        "servers": {"a": server},
    }
    told = f"`{tmp_path / 'link'}` would let a server change `{places[kept]}`"
    found = parse(json.dumps(content), file=places["douane.yaml"], environ={})
    assert (await local(found)).refused == f"{told}, by which this gateway goes"
    content["servers"] = {"a": {**server, "files": {"read": server["files"]["write"]}}}
    found = parse(json.dumps(content), file=places["douane.yaml"], environ={})
    assert (await local(found)).refused == ""


WORK: dict[str, Any] = {"command": ["sh"], "files": {"write": ["work"]}}
"""A server that may change a folder."""


@pytest.mark.parametrize(
    "more",
    [
        {"auth": {"registration": {"copies": {"https://c.example/c": "work/x"}}}},
        {"egress": {"ca": "work/x"}},
        {"policy": {"mode": "shadow", "candidate": "work/x"}},
        {"audit": {"on_failure": "spool", "spool": {"path": "work/x"}}},
        {"audit": {"retention": {"archive": "work/x"}}},
        {"policy": {"path": "work/x"}},
        {"data_dir": "work/x"},
    ],
    ids=lambda more: next(iter(more)),
)
@pytest.mark.parametrize("way", ["straight", "link", "by-it"])
async def test_that_is_whatever_file_it_names_and_by_whatever_link(
    tmp_path: Path, way: str, more: dict[str, Any]
) -> None:
    """A link that leads out of a folder is whoever's who may change that folder."""
    (tmp_path / "work").mkdir()
    (tmp_path / "away").mkdir()
    (tmp_path / "by").symlink_to("work/x")
    if way != "straight":
        (tmp_path / "work" / "x").symlink_to("../away")
    name = "by" if way == "by-it" else "work/x"
    written = json.loads(json.dumps(more).replace("work/x", name))
    refused = (await local(config(tmp_path, written, **WORK))).refused
    shown = "data_dir" in more and way == "straight"
    told = "show the gateway's own data" if shown else f"let a server change `{tmp_path / name}`"
    assert refused.startswith(f"`{tmp_path / 'work'}` would {told}")


async def test_no_server_may_change_this_gateways_code(tmp_path: Path) -> None:
    code = Path(upstreams.__file__).parent
    one = await local(config(tmp_path, command=["sh"], files={"write": [str(code)]}))
    assert f"would let a server change `{code.parent}`" in one.refused


async def test_what_one_may_exchange_is_started_without_a_jail_neither(tmp_path: Path) -> None:
    """It would do there what its own jail keeps it from."""
    program = tmp_path / "work" / "tool"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    other = {"b": {"command": [str(program)], "jail": "none"}}
    _, found = await upstreams_of(config(tmp_path, more_servers=other, **WORK))
    assert isinstance(found, LocalSettings)
    assert found.refused.startswith(f"`{program}` lies in `{tmp_path / 'work'}`")


@pytest.mark.parametrize("shared", ["venv/bin/tool", "venv/lib"])
async def test_nor_is_a_program_that_is_theirs_itself_or_holds_what_is(
    tmp_path: Path, shared: str
) -> None:
    """A file that one may write, or a library of the program's environment."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "lib").mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    program = tmp_path / "venv" / "bin" / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    other = {"b": {"command": [str(program)], "jail": "none"}}
    writes: dict[str, Any] = {"command": ["sh"], "files": {"write": [shared]}}
    _, found = await upstreams_of(config(tmp_path, more_servers=other, **writes))
    assert isinstance(found, LocalSettings)
    assert found.refused.startswith(f"`{tmp_path / shared}` is of `{tmp_path / 'venv'}")


async def test_nor_is_one_of_the_systems_that_is_theirs() -> None:
    tool = Path("/usr/bin/env")
    launch = Launch(argv=(str(tool),), folder=Path("/"), jailed=False)
    told = [f"`{tool}` lies in `/usr/bin`, where a server may put what it likes in its place"]
    assert [*hides(launch, (), [Path("/usr/bin")])] == told


@pytest.mark.parametrize("what", ["cache", "temporary", "path", "opa", "libraries"])
async def test_no_server_may_change_what_the_gateway_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Its OPA, what starts its sandbox, what is built of a policy: they have all that its user may."""
    at = tmp_path / what
    at.mkdir()
    match what:
        case "cache":
            monkeypatch.setenv("XDG_CACHE_HOME", str(at))
        case "temporary":
            monkeypatch.setattr("tempfile.tempdir", str(at))
        case "path":
            monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{at}")
        case "opa":
            monkeypatch.setenv("DOUANE_OPA", str(at / "opa"))
        case _:
            at = Path(sysconfig.get_path("purelib")) / "pydantic"
    one = await local(config(tmp_path, command=["sh"], files={"write": [str(at)]}))
    assert f"`{at}` would let a server change `" in one.refused


async def test_no_server_may_take_the_place_of_a_socket_where_planes_ask(tmp_path: Path) -> None:
    """Whoever listens there is told the planes' key, and answers them for the gateway."""
    (tmp_path / "work").mkdir()
    socket = tmp_path / "work" / "planes.sock"
    found = config(tmp_path, {"planes": {"grpc": {"listen": f"unix:{socket}"}}}, **WORK)
    told = f"`{tmp_path / 'work'}` would let a server change `{socket}`"
    assert (await local(found)).refused.startswith(told)


async def test_a_folder_of_its_own_among_what_is_temporary_is_its_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "work").mkdir()
    assert (await local(config(tmp_path, **WORK))).refused == ""


@pytest.mark.parametrize("leads", ["/", "out"], ids=["everywhere", "nowhere"])
async def test_what_one_puts_in_the_place_of_anothers_folder_has_only_that_one_refused(
    tmp_path: Path, leads: str
) -> None:
    """A link to all there is, or one that leads to itself."""
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "out").symlink_to(leads)
    inner = {"command": ["sh"], "files": {"write": ["work/out"]}}
    others = {"b": inner, "c": {"command": [str(program)]}}
    found = await upstreams_of(config(tmp_path, more_servers=others, **WORK))
    refused = [one.refused for one in found if isinstance(one, LocalSettings)]
    assert [bool(why) for why in refused] == [False, True, False]


async def test_what_is_named_by_way_of_such_a_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "other" / "a").mkdir(parents=True)
    others = {
        "b": {"command": ["sh"], "files": {"write": ["work/../other"]}},
        "c": {"command": ["sh"], "files": {"read": ["other/a"]}},
    }
    *_, found = await upstreams_of(config(tmp_path, more_servers=others, **WORK))
    assert isinstance(found, LocalSettings)
    assert found.refused.startswith(f"`{tmp_path / 'other/a'}` lies in")


async def test_what_one_server_may_exchange_is_shown_to_no_other(tmp_path: Path) -> None:
    (tmp_path / "work" / "a").mkdir(parents=True)
    other = {"b": {"command": ["sh"], "files": {"write": ["work"]}}}
    found = config(tmp_path, more_servers=other, command=["sh"], files={"read": ["work/a"]})
    one, _ = await upstreams_of(found)
    assert isinstance(one, LocalSettings)
    told = f"`{tmp_path / 'work/a'}` lies in `{tmp_path / 'work'}`"
    assert one.refused.startswith(told)
    assert one.changeable == (tmp_path / "work",)


async def test_a_secret_reaches_the_environment_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("the-secret\n")
    one = await local(config(tmp_path, command=["sh"], environment={"T": "file:t"}))
    assert one.launch.environment == {"T": "the-secret"}
    assert one.launch.references == (("T", f"file:{tmp_path / 't'}"),)
    assert "the-secret" not in repr(one)


async def test_what_it_is_refused_of_the_network_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    found = config(tmp_path, command=["sh"], network={"allow": ["a.example.com:443"]})
    (one,) = await upstreams_of(found, lambda server, destination, why: told.append(destination))
    assert isinstance(one, LocalSettings)
    assert [str(destination) for destination in one.launch.reach] == ["a.example.com:443"]
    one.way_out.refusals(one.server, read_authority("b.example.com:443"), "it is not listed")
    assert told == ["b.example.com:443"]


class Log:
    """A log that keeps what is appended, unless it is full."""

    def __init__(self, *, full: bool = False) -> None:
        self.records: list[AuditRecord] = []
        self._full = full

    async def append(self, record: AuditRecord) -> LogEntry:
        if self._full:
            raise AuditUnavailable("The log is full.")
        self.records.append(record)
        return LogEntry(id=record.id, leaf_index=len(self.records))


async def test_a_refused_destination_is_recorded() -> None:
    log = Log()
    reporter = RefusedEgressReporter(log)
    reporter(UpstreamId("a"), "b.example.com:443", "it is not listed")
    await reporter.settle()
    (record,) = log.records
    assert (record.kind, dict(record.fields)) == (
        RecordKind.SYSTEM,
        {
            "server": "a",
            "verdict": "deny",
            "code": "egress_refused",
            "reasons": [
                {"code": "egress_refused", "message": "b.example.com:443: it is not listed"}
            ],
        },
    )


async def test_one_that_cannot_be_recorded_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    reporter = RefusedEgressReporter(Log(full=True))
    reporter(UpstreamId("a"), "b.example.com:443", "it is not listed")
    await reporter.settle()
    assert "a refused destination of a could not be recorded" in caplog.text


def test_a_machine_that_forbids_the_namespaces_is_found_out_by_trying() -> None:
    """As containers do: here it is another jail, in which nobody may make a namespace."""
    script = (
        "import asyncio; from gateway.upstream.jail_trial import *; "
        "print(asyncio.run(problem(ProcessLimits())))"
    )
    walls = ["--unshare-user", "--disable-userns", "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    done = subprocess.run(
        ["bwrap", *walls, "--", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("bwrap does not work here (bwrap: ")
