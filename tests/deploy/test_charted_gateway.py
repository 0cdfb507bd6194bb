"""A real gateway runs what the chart writes, over a real PostgreSQL, and is probed as a kubelet does."""

import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import parse, warnings
from gateway.storage.kek import new_key
from tests.deploy import kube
from tests.deploy.charted import given
from tests.deploy.kube import Manifest, one
from tests.postgres import Postgres
from tests.running import Running, rules_in, running_gateway
from tests.servers.process import free_port

pytestmark = kube.needed


@pytest.fixture(scope="module")
def made() -> list[Manifest]:
    return kube.rendered(given(policy={"configMap": "douane-policy"}))


@pytest.fixture(scope="module")
def written(made: list[Manifest]) -> str:
    """The configuration that the chart writes."""
    return str(one(made, "ConfigMap")["data"]["douane.yaml"])


def mounted(files: Path, place: Path) -> Path:
    """Lay files out as a kubelet mounts a ConfigMap: by links, through one that it exchanges."""
    place.mkdir()
    files.rename(place / "..2026_11_29")
    (place / "..data").symlink_to("..2026_11_29")
    for file in (place / "..data").iterdir():
        (place / file.name).symlink_to(f"..data/{file.name}")
    return place


@pytest.fixture(scope="module")
def gateway(
    written: str, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("charted")
    run = folder / "run"
    run.mkdir()
    for name, text in (("kek", new_key()), ("database", postgres.fresh())):
        (run / name).touch(mode=0o600)
        (run / name).write_text(text)
        (run / name).chmod(0o400)
    policies = mounted(rules_in(folder / "rules"), folder / "policy")
    moved = {
        "/run/douane": str(run),
        "/etc/douane-policy": str(policies),
        "/data/gateway": str(folder / "data"),
        "0.0.0.0:8080": f"127.0.0.1:{free_port()}",
        "0.0.0.0:8081": f"0.0.0.0:{(admin := free_port())}",
    }
    for there, here in moved.items():
        assert there in written
        written = written.replace(there, here)
    settings: dict[str, Any] = yaml.safe_load(written)
    servers = settings.pop("servers")
    settings.pop("version")
    with running_gateway(folder, servers, ports=(free_port(), admin), **settings) as running:
        yield running


def test_what_the_chart_writes_is_a_configuration(written: str) -> None:
    config = parse(written, file=Path("/etc/douane/douane.yaml"))
    assert str(config.policy.path) == "/etc/douane-policy"
    told = {text.split(":")[0] for text in warnings(config)}
    # Who reaches the admin listener is the network policy's to say, and the server's name is inside.
    assert told == {"admin_listen", "servers.notes.url", "alerts.webhooks"}


def test_what_kustomize_writes_is_one_as_well() -> None:
    for folder in ("base", "overlays/example"):
        text = one(kube.built(kube.KUSTOMIZE / folder), "ConfigMap")["data"]["douane.yaml"]
        assert parse(text, file=Path("/etc/douane/douane.yaml")).storage.kind == "postgres"


def test_it_runs_and_its_probes_are_answered(made: list[Manifest], gateway: Running) -> None:
    """A kubelet and a Prometheus name the address that they connect to."""
    (container,) = one(made, "Deployment")["spec"]["template"]["spec"]["containers"]
    probes = [each["httpGet"]["path"] for name, each in container.items() if "Probe" in name]
    assert sorted(probes) == ["/healthz", "/healthz", "/readyz"]
    for path in (*probes, "/metrics"):
        with urllib.request.urlopen(f"{gateway.admin_url}{path}", timeout=60) as answer:
            assert answer.status == 200


def test_the_check_has_nothing_against_it(gateway: Running) -> None:
    done = gateway.douane("check", "--offline")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_ends_well_when_it_is_told_to(gateway: Running) -> None:
    os.kill(gateway.process.pid, signal.SIGTERM)
    assert gateway.process.wait(timeout=120) == 0
