"""Kustomize's base is what the chart makes; its example is what an installation adds to it."""

from typing import Any

import pytest
import yaml

from tests.deploy import kube
from tests.deploy.charted import given
from tests.deploy.kube import Manifest, one

pytestmark = kube.needed
ALIKE = ("Deployment", "Service", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget")
SCALED = {"autoscaling": {"enabled": True}, "ingress": {"enabled": True, "tlsSecret": "tls"}}


@pytest.fixture(scope="module")
def base() -> list[Manifest]:
    return kube.built(kube.KUSTOMIZE / "base")


@pytest.fixture(scope="module")
def example() -> list[Manifest]:
    return kube.built(kube.KUSTOMIZE / "overlays" / "example")


def core(manifest: Manifest) -> dict[str, Any]:
    """Return what it says, without what tells which tool made it, and of which configuration."""
    said = {key: content for key, content in manifest.items() if key not in {"metadata", "status"}}
    if manifest["kind"] == "Deployment":
        said["spec"]["template"]["metadata"].pop("annotations", None)
        volume = next(
            each for each in said["spec"]["template"]["spec"]["volumes"] if each["name"] == "config"
        )
        volume["configMap"]["name"] = volume["configMap"]["name"].partition("-")[0]
    return said


def config(manifests: list[Manifest]) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(one(manifests, "ConfigMap")["data"]["douane.yaml"])
    return read


@pytest.mark.parametrize("kind", ALIKE)
def test_the_base_is_what_the_chart_makes(kind: str, base: list[Manifest]) -> None:
    made, found = core(one(kube.rendered(given()), kind)), core(one(base, kind))
    if kind == "NetworkPolicy":
        # Nobody is listed yet, beside whoever tells names.
        assert found["spec"]["ingress"] == []
        made["spec"].update(ingress=[], egress=made["spec"]["egress"][:1])
    assert found == made


def test_its_configuration_is_the_charts(base: list[Manifest], example: list[Manifest]) -> None:
    made = config(kube.rendered(given()))
    assert config(example) == made
    assert config(base) == {
        key: content
        for key, content in (made | {"servers": {}}).items()
        if key != "trusted_proxies"
    }


@pytest.mark.parametrize("kind", ["NetworkPolicy", "HorizontalPodAutoscaler", "Ingress"])
def test_the_example_adds_what_values_would(kind: str, example: list[Manifest]) -> None:
    made, found = core(one(kube.rendered(given(**SCALED)), kind)), core(one(example, kind))
    if kind == "Ingress":
        found["spec"]["tls"] = made["spec"]["tls"]
    assert found == made


def test_the_example_asks_the_cluster_to_hold_pods_to_the_standard(example: list[Manifest]) -> None:
    labels = one(example, "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    others = [each for each in example if each["kind"] != "Namespace"]
    assert {each["metadata"]["namespace"] for each in others} == {"douane"}


@pytest.mark.parametrize("folder", ["base", "overlays/example"])
@pytest.mark.parametrize("version", [kube.OLDEST, kube.NEWEST])
def test_it_is_what_kubernetes_says_it_is_either_way(folder: str, version: str) -> None:
    made = kube.built(kube.KUSTOMIZE / folder)
    assert [kube.misfits(each, version) for each in made] == [[] for _ in made]
