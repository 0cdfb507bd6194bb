"""The chart: what it makes fits Kubernetes' schemas, and what cannot run is refused with a sentence."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.chart import archive
from tests.deploy import kube
from tests.deploy.charted import VALUES, VARIANTS, given
from tests.deploy.kube import Manifest, Refused, one

pytestmark = kube.needed
ALL = given(**VARIANTS["all that it has"])
FILE = {"storage": {"kind": "sqlite", "claim": "douane"}}
"""SQLite's."""
BY_SENTENCE: dict[str, tuple[dict[str, Any], str]] = {
    "SQLite and a second gateway": (FILE, "a file that one gateway has alone; write replicas: 1"),
    "SQLite and a scaler": (
        {**FILE, "replicas": 1, "autoscaling": {"enabled": True}},
        "write replicas: 1 without autoscaling",
    ),
    "SQLite and no disk": (
        {"replicas": 1, "storage": {"kind": "sqlite"}},
        "storage.claim: name a PersistentVolumeClaim",
    ),
    "a server over stdio": (
        {"config": {"servers": {"notes": {"command": ["notes"]}}}},
        "config.servers.notes.command: each gateway would start a process of its own",
    ),
    "a jail that cannot be": (
        {"config": {"code": {"jail": "required"}}},
        "config.code.jail: a restricted pod can make no jail",
    ),
    "no address": ({"publicUrl": ""}, "publicUrl: write what clients type"),
    "a key of the chart's": ({"config": {"listen": "0.0.0.0:1"}}, "config.listen: leave it out"),
    "another storage": (
        {"config": {"storage": {"url": "env:DATABASE"}}},
        "config.storage.url: leave it out",
    ),
    "another policy": (
        {"config": {"policy": {"path": "/policies"}}},
        "name a ConfigMap in policy.configMap",
    ),
    "another key": (
        {"config": {"auth": {"key_encryption_key": "env:KEK"}}},
        "name a Secret in secretFiles.kek",
    ),
    "nobody in front": ({"network": {"from": []}}, "network.from: name who may call"),
    "no database": ({"network": {"database": {"to": []}}}, "name where PostgreSQL is"),
    "a server out of reach": (
        {"config": {"servers": {"mail": {"url": "https://mail.example.com/mcp"}}}},
        "network.servers.mail: name where it is",
    ),
    "too short an end": (
        {"drain": {"preStopSeconds": 20}},
        "drain.gracePeriodSeconds: write 65 or more",
    ),
    "no key": ({"secretFiles": {"kek": None}}, "secretFiles.kek: name the Secret"),
    "no address of the database": (
        {"secretFiles": {"database": None}},
        "secretFiles.database: name the Secret",
    ),
}
BY_SCHEMA: dict[str, tuple[dict[str, Any], str]] = {
    "a value that there is not": ({"replica": 3}, "'replica' not allowed"),
    "a secret's own words": (
        {"secretFiles": {"kek": {"secret": "douane", "key": "kek", "value": "..."}}},
        "'value' not allowed",
    ),
    "a file elsewhere": (
        {"secretFiles": {"../kek": {"secret": "douane", "key": "kek"}}},
        "does not match pattern",
    ),
    "plain http": ({"publicUrl": "http://mcp.example.com"}, "/publicUrl"),
    "everywhere": (
        {"network": {"servers": {"notes": {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}}}},
        "'0.0.0.0/0' does not match pattern",
    ),
    "every pod": (
        {"network": {"servers": {"notes": {"to": [{"namespaceSelector": {}}]}}}},
        "/network/servers/notes/to/0/namespaceSelector",
    ),
    "everybody": ({"network": {"servers": {"notes": {"to": []}}}}, "/network/servers/notes/to"),
    "everybody in front": ({"network": {"from": [{}]}}, "/network/from/0"),
    "no gateway": ({"replicas": 0}, "/replicas"),
    "a name for a digest": ({"image": {"digest": "latest"}}, "/image/digest"),
}


@pytest.fixture(scope="module")
def everything() -> list[Manifest]:
    return kube.rendered(ALL)


@pytest.mark.parametrize("version", [kube.OLDEST, kube.NEWEST])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_what_kubernetes_says_it_is(variant: str, version: str) -> None:
    made = kube.rendered(given(**VARIANTS[variant]))
    assert {each["metadata"]["name"]: kube.misfits(each, version) for each in made} == {
        each["metadata"]["name"]: [] for each in made
    }


def test_the_schemas_know_what_kubernetes_does_not(everything: list[Manifest]) -> None:
    deployment = one(everything, "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["securtyContext"] = {}
    assert kube.misfits(deployment, kube.NEWEST) != []
    assert kube.misfits(deployment, kube.OLDEST) != []


def test_helm_has_nothing_against_it() -> None:
    assert kube.linted(VALUES) == ""


@pytest.mark.parametrize("case", [*BY_SENTENCE, *BY_SCHEMA])
def test_what_cannot_run_is_refused(case: str) -> None:
    more, sentence = {**BY_SENTENCE, **BY_SCHEMA}[case]
    with pytest.raises(Refused, match=re.escape(sentence)):
        kube.rendered(given(**more))


def test_without_the_network_nothing_of_it_is_asked_for() -> None:
    made = kube.rendered(given(network={"enabled": False, "from": [], "servers": {}}))
    assert "NetworkPolicy" not in {each["kind"] for each in made}


def test_the_way_out_is_exactly_what_is_listed(everything: list[Manifest]) -> None:
    ways = [
        (rule["to"], [(port["port"], port["protocol"]) for port in rule["ports"]])
        for rule in one(everything, "NetworkPolicy")["spec"]["egress"]
    ]
    network, dns = ALL["network"], yaml.safe_load((kube.CHART / "values.yaml").read_text())
    assert ways == [
        (dns["network"]["dns"]["to"], [(53, "UDP"), (53, "TCP")]),
        (network["database"]["to"], [(5432, "TCP")]),
        (network["servers"]["notes"]["to"], [(9001, "TCP")]),
        (network["others"]["identity"]["to"], [(443, "TCP")]),
    ]


def test_secrets_are_named_and_become_files_of_the_gateways_own(everything: list[Manifest]) -> None:
    pod = one(everything, "Deployment")["spec"]["template"]["spec"]
    given_files = next(each for each in pod["volumes"] if each["name"] == "given")["projected"]
    named = {
        item["path"]: (source["secret"]["name"], item["key"])
        for source in given_files["sources"]
        for item in source["secret"]["items"]
    }
    assert named == {
        "kek": ("douane", "kek"),
        "database": ("douane", "database"),
        "pgpass": ("douane", "pgpass"),
        "database-ca": ("douane-db-ca", "ca.crt"),
    }
    assert given_files["defaultMode"] == 0o440
    (container,) = pod["initContainers"]
    copied = ["install", "--mode=0400", "--target-directory=/run/douane"]
    assert container["command"] == [*copied, *(f"/given/{name}" for name in sorted(named))]
    kept = next(each for each in pod["volumes"] if each["name"] == "secrets")
    assert kept["emptyDir"]["medium"] == "Memory"


def test_another_configuration_is_another_pod(everything: list[Manifest]) -> None:
    changed = kube.rendered(given(config={"servers": {"notes": {"url": "https://n.example/mcp"}}}))

    def told(manifests: list[Manifest]) -> str:
        metadata = one(manifests, "Deployment")["spec"]["template"]["metadata"]
        return str(metadata["annotations"]["checksum/config"])

    assert told(changed) != told(everything)


def test_a_digest_says_what_is_run(everything: list[Manifest]) -> None:
    pod = one(everything, "Deployment")["spec"]["template"]["spec"]
    images = {each["image"] for each in (*pod["containers"], *pod["initContainers"])}
    assert images == {f"registry.example.com/douane:{_version()}@sha256:{'a' * 64}"}


def test_it_is_of_the_version_of_the_program() -> None:
    chart = yaml.safe_load((kube.CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (_version(), _version())


def test_a_client_stays_at_its_gateway_and_is_asked_nothing_twice(
    everything: list[Manifest],
) -> None:
    told = {
        name.rpartition("/")[2]: text
        for name, text in one(everything, "Ingress")["metadata"]["annotations"].items()
    }
    assert told["upstream-hash-by"] == "$http_mcp_session_id$http_authorization"
    assert told["proxy-next-upstream"] == "off"
    assert (told["proxy-buffering"], told["proxy-request-buffering"]) == ("off", "off")


def _version() -> str:
    read = tomllib.loads((kube.ROOT / "pyproject.toml").read_text())
    return str(read["project"]["version"])


def test_a_release_has_it_in_one_file_that_helm_takes(tmp_path: Path) -> None:
    packed = tmp_path / "douane.chart.tgz"
    packed.write_bytes(archive(kube.CHART))
    assert kube.rendered(given(), chart=packed) == kube.rendered(given())
    assert archive(kube.CHART) == packed.read_bytes()


def test_what_the_chart_writes_stands_beside_what_is_given() -> None:
    text = one(kube.rendered(given(config={"auth": {"mode": "embedded"}})), "ConfigMap")["data"]
    config = yaml.safe_load(text["douane.yaml"])
    assert config["auth"] == {"mode": "embedded", "key_encryption_key": "file:/run/douane/kek"}
