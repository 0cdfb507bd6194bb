"""Container, compose and unit files, by reading: no container engine runs where tests do."""

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import parse
from gateway.policy import toolchain
from gateway.sandbox import jail as program_jail
from gateway.upstream import jail as local_jail

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()


class Unit(configparser.RawConfigParser):
    """systemd's form of INI: names keep their case, and one may stand more than once."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit(section: str, file: Path = DEPLOY / "douane.service") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    here = ""
    for line in file.read_text().splitlines():
        if line.startswith("["):
            here = line.strip("[]")
        elif line and not line.startswith("#") and here == section:
            name, _, content = line.partition("=")
            found.setdefault(name, []).append(content)
    return found


def test_the_unit_file_is_one() -> None:
    reader = Unit(strict=False, delimiters=("=",), comment_prefixes=("#",))
    reader.read(DEPLOY / "douane.service")
    assert reader.sections() == ["Unit", "Service", "Install"]


def test_the_unit_gives_the_service_nothing_it_can_do_without() -> None:
    service = unit("Service")
    yes = [name for name, contents in service.items() if contents == ["yes"]]
    assert set(yes) == {
        "DynamicUser",
        "LockPersonality",
        "NoNewPrivileges",
        "PrivateDevices",
        "PrivateTmp",
        "ProtectClock",
        "ProtectControlGroups",
        "ProtectHome",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "RemoveIPC",
        "RestrictRealtime",
        "RestrictSUIDSGID",
    }
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]
    assert service["SystemCallFilter"][:2] == ["@system-service", "~@privileged"]
    assert service["RestrictAddressFamilies"][:1] == ["AF_INET AF_INET6 AF_UNIX"]
    assert service["UMask"] == ["0077"]


@pytest.mark.parametrize("walls", [local_jail._WALLS, program_jail._WALLS])
def test_the_unit_allows_the_namespaces_of_jails_and_no_other(walls: tuple[str, ...]) -> None:
    made = {word.removeprefix("--unshare-") for word in walls if word.startswith("--unshare-")}
    service = unit("Service")
    assert [set(words.split()) for words in service["RestrictNamespaces"]] == [made | {"mnt"}]
    assert service["SystemCallFilter"][2:] == ["mount umount2 pivot_root capset"]
    assert service["RestrictAddressFamilies"][1:] == ["AF_NETLINK"]
    assert service["ReadWritePaths"] == ["/proc/sys/user"]


def test_what_the_unit_opens_for_jails_a_drop_in_closes() -> None:
    opened = unit("Service")
    closed = unit("Service", DEPLOY / "douane.service.d" / "no-jails.conf")
    assert closed == {
        "RestrictNamespaces": ["", "yes"],
        "SystemCallFilter": [f"~{opened['SystemCallFilter'][2]}"],
        "RestrictAddressFamilies": ["", opened["RestrictAddressFamilies"][0]],
        "ReadWritePaths": [""],
    }


def test_the_unit_bounds_what_the_service_may_take() -> None:
    assert unit("Service").keys() >= {
        "MemoryMax",
        "TasksMax",
        "LimitNOFILE",
        "LimitCORE",
        "TimeoutStopSec",
    }
    assert unit("Service")["OOMPolicy"] == ["continue"]


def test_the_unit_does_not_forbid_the_policy_engine_its_code() -> None:
    """WebAssembly is compiled in memory; under this key the gateway would not start."""
    assert "MemoryDenyWriteExecute" not in unit("Service")


def test_the_unit_reloads_by_a_hangup() -> None:
    assert unit("Service")["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_the_container_holds_only_what_was_locked_and_checked() -> None:
    installs = re.findall(r"pip install ([^\\\n]+)", CONTAINERFILE)
    by_hash = [line for line in installs if not line.startswith("--no-deps /wheel/")]
    assert len(by_hash) == 2
    whole = "--no-deps --require-hashes --only-binary=:all: "
    assert all(line.startswith(whole) for line in by_hash)
    assert "gateway.policy.toolchain" in CONTAINERFILE
    assert f"hatchling=={_backend()} " in (ROOT / "requirements-build.txt").read_text()


@pytest.mark.parametrize(
    "place", ["Makefile", "deploy/Containerfile", "docs/operations.md", "docs/releases.md"]
)
def test_a_lock_is_installed_as_it_is(place: str) -> None:
    """pip resolves anew what a lock's `name[extra]` asks for, and takes what came out since: no hash fits that."""
    text = (ROOT / place).read_text()
    locked = [
        line for line in text.splitlines() if "install" in line and "--require-hashes" in line
    ]
    assert locked
    assert all("--no-deps" in line for line in locked)


def _backend() -> str:
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'requires = \["hatchling==([^"]+)"\]', text)
    assert found
    return found[1]


def test_the_build_sees_exactly_what_it_copies() -> None:
    ignore = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    seen = {line[1:] for line in ignore if line.startswith("!")}
    copied: set[str] = set()
    for sources in re.findall(r"(?m)^COPY ((?!--from).+)$", CONTAINERFILE):
        copied |= set(sources.split()[:-1])
    assert "*" in ignore
    assert seen == copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_container_does_not_run_as_root() -> None:
    last_stage = CONTAINERFILE.rpartition("FROM ")[2]
    assert re.findall(r"(?m)^USER (.+)$", last_stage) == ["65532:65532"]
    assert re.findall(r"(?m)^VOLUME (.+)$", last_stage) == ["/data"]
    assert "HEALTHCHECK" in last_stage
    assert "/healthz" in last_stage


def test_every_container_of_compose_is_hardened() -> None:
    for service in SERVICES.values():
        assert service["read_only"] is True
        assert service["user"] == "65532:65532"
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service
        assert service["pids_limit"]
        assert service["mem_limit"]


def test_only_the_gateway_reaches_the_upstreams_and_the_policy_server() -> None:
    members = {
        network: {name for name, service in SERVICES.items() if network in service["networks"]}
        for network in COMPOSE["networks"]
    }
    assert members == {
        "edge": {"gateway"},
        "policy": {"gateway", "opa"},
        "upstreams": {"gateway", "notes"},
    }
    assert COMPOSE["networks"]["policy"] == {"internal": True}
    assert COMPOSE["networks"]["upstreams"] == {"internal": True}


def test_only_the_gateway_has_a_port_and_that_on_loopback() -> None:
    ports = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert ports == {"gateway": ["127.0.0.1:8080:8080"], "opa": [], "notes": []}


def test_the_configuration_of_compose_names_the_services_of_compose() -> None:
    file = DEPLOY / "compose" / "douane.yaml"
    config = parse(file.read_text(), file=file)
    assert config.policy.opa is not None
    assert config.policy.opa.url == "http://opa:8181"
    assert {server.url for server in config.servers.values()} == {"http://notes:9001/mcp"}
    assert str(config.data_dir) == "/data"


def test_files_that_compose_mounts_are_there() -> None:
    sources = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if volume.startswith(".")
    }
    assert sources
    assert all((DEPLOY / source).exists() for source in sources)


def test_the_opa_server_asks_for_a_token_and_judges_it() -> None:
    command = SERVICES["opa"]["command"]
    assert "--authentication=token" in command
    assert "--authorization=basic" in command
    assert SERVICES["opa"]["entrypoint"] == ["/usr/local/bin/opa"]
    assert f"v{'.'.join(map(str, toolchain.VERSION))}" in toolchain._RELEASES


def test_the_proxy_passes_the_host_on_and_sends_no_call_twice() -> None:
    text = (DEPLOY / "nginx" / "douane.conf").read_text()
    for directive in (
        "proxy_set_header Host $host;",
        "proxy_set_header X-Forwarded-For $remote_addr;",
        "proxy_buffering off;",
        "proxy_next_upstream error;",
    ):
        assert directive in text
    assert "non_idempotent;" not in text
    assert text.count("{") == text.count("}")
