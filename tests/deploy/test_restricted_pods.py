"""What Helm and Kustomize make holds everything that it should, and whatever is taken out is missed."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.deploy import kube
from tests.deploy.charted import VARIANTS, given
from tests.deploy.kube import Manifest, one
from tests.deploy.restricted import wrong

pytestmark = kube.needed
Edit = Callable[[list[Manifest]], object]


def pod(manifests: list[Manifest]) -> dict[str, Any]:
    spec: dict[str, Any] = one(manifests, "Deployment")["spec"]["template"]["spec"]
    return spec


def gateway(manifests: list[Manifest]) -> dict[str, Any]:
    container: dict[str, Any] = pod(manifests)["containers"][0]
    return container


def first(manifests: list[Manifest]) -> dict[str, Any]:
    container: dict[str, Any] = pod(manifests)["initContainers"][0]
    return container


def network(manifests: list[Manifest]) -> dict[str, Any]:
    spec: dict[str, Any] = one(manifests, "NetworkPolicy")["spec"]
    return spec


def without(manifests: list[Manifest], kind: str) -> None:
    manifests[:] = [each for each in manifests if each["kind"] != kind]


EDITS: dict[str, Edit] = {
    "a secret in the chart": lambda m: m.append({"kind": "Secret", "metadata": {"name": "x"}}),
    "rights in the cluster": lambda m: m.append({"kind": "Role", "metadata": {"name": "x"}}),
    "root": lambda m: pod(m)["securityContext"].pop("runAsNonRoot"),
    "user 0": lambda m: pod(m)["securityContext"].update(runAsUser=0),
    "no filter of system calls": lambda m: pod(m)["securityContext"].pop("seccompProfile"),
    "another filter": lambda m: pod(m)["securityContext"].update(
        seccompProfile={"type": "Unconfined"}
    ),
    "the node's network": lambda m: pod(m).update(hostNetwork=True),
    "the node's processes": lambda m: pod(m).update(hostPID=True),
    "the node's files": lambda m: pod(m)["volumes"].append(
        {"name": "x", "hostPath": {"path": "/"}}
    ),
    "a token among the files": lambda m: pod(m)["volumes"][1]["projected"]["sources"].append(
        {"serviceAccountToken": {"path": "token"}}
    ),
    "a port of the node": lambda m: gateway(m)["ports"][0].update(hostPort=8080),
    "new privileges": lambda m: gateway(m)["securityContext"].pop("allowPrivilegeEscalation"),
    "a root that can be written": lambda m: gateway(m)["securityContext"].update(
        readOnlyRootFilesystem=False
    ),
    "capabilities": lambda m: gateway(m)["securityContext"].pop("capabilities"),
    "one capability": lambda m: gateway(m)["securityContext"]["capabilities"].update(
        add=["NET_ADMIN"]
    ),
    "privileges": lambda m: gateway(m)["securityContext"].update(privileged=True),
    "a /proc without a mask": lambda m: gateway(m)["securityContext"].update(procMount="Unmasked"),
    "another user for one container": lambda m: gateway(m)["securityContext"].update(runAsUser=0),
    "privileges of the first container": lambda m: first(m).pop("securityContext"),
    "all memory": lambda m: gateway(m)["resources"].pop("limits"),
    "a secret in the environment": lambda m: gateway(m)["env"].append(
        {"name": "X", "valueFrom": {"secretKeyRef": {"name": "x", "key": "x"}}}
    ),
    "secrets that can be written": lambda m: gateway(m)["volumeMounts"][1].pop("readOnly"),
    "a configuration that can be written": lambda m: gateway(m)["volumeMounts"][0].pop("readOnly"),
    "the token of the account": lambda m: one(m, "ServiceAccount").pop(
        "automountServiceAccountToken"
    ),
    "the token in the pod": lambda m: pod(m).pop("automountServiceAccountToken"),
    "the account of others": lambda m: pod(m).update(serviceAccountName="default"),
    "every service told": lambda m: pod(m).pop("enableServiceLinks"),
    "no network policy": lambda m: without(m, "NetworkPolicy"),
    "a policy of other pods": lambda m: network(m)["podSelector"].pop("matchLabels"),
    "egress left open": lambda m: network(m)["policyTypes"].remove("Egress"),
    "ingress left open": lambda m: network(m)["policyTypes"].remove("Ingress"),
    "egress to everybody": lambda m: network(m)["egress"].append(
        {"ports": [{"port": 443, "protocol": "TCP"}]}
    ),
    "egress at every port": lambda m: network(m)["egress"][-1].pop("ports"),
    "egress to everywhere": lambda m: network(m)["egress"][-1].update(
        to=[{"ipBlock": {"cidr": "0.0.0.0/0"}}]
    ),
    "egress to every pod": lambda m: network(m)["egress"][-1].update(
        to=[{"namespaceSelector": {}}]
    ),
    "ingress of everybody": lambda m: network(m)["ingress"][0].pop("from"),
    "ingress to another port": lambda m: network(m)["ingress"][0].update(ports=[{"port": 22}]),
    "no startup probe": lambda m: gateway(m).pop("startupProbe"),
    "alive only beside its database": lambda m: gateway(m)["livenessProbe"]["httpGet"].update(
        path="/readyz"
    ),
    "ready once it answers": lambda m: gateway(m)["readinessProbe"]["httpGet"].update(
        path="/healthz"
    ),
    "an end at once": lambda m: gateway(m).pop("lifecycle"),
    "calls cut off": lambda m: pod(m).update(terminationGracePeriodSeconds=30),
    "another deployment's pods": lambda m: one(m, "Deployment")["spec"]["selector"].pop(
        "matchLabels"
    ),
    "another service's pods": lambda m: one(m, "Service")["spec"]["selector"].pop(
        "app.kubernetes.io/instance"
    ),
    "no number": lambda m: one(m, "Deployment")["spec"].pop("replicas"),
    "fewer while it is replaced": lambda m: one(m, "Deployment")["spec"]["strategy"].pop(
        "rollingUpdate"
    ),
    "no budget": lambda m: without(m, "PodDisruptionBudget"),
    "a budget of other pods": lambda m: one(m, "PodDisruptionBudget")["spec"].update(selector={}),
}


@pytest.fixture(scope="module")
def made() -> list[Manifest]:
    return kube.rendered(given())


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_the_chart_makes_holds_everything(variant: str) -> None:
    assert wrong(kube.rendered(given(**VARIANTS[variant]))) == []


@pytest.mark.parametrize("folder", ["base", "overlays/example"])
def test_what_kustomize_makes_holds_everything(folder: str) -> None:
    assert wrong(kube.built(kube.KUSTOMIZE / folder)) == []


@pytest.mark.parametrize("edit", EDITS)
def test_whatever_is_taken_out_is_missed(edit: str, made: list[Manifest]) -> None:
    edited = copy.deepcopy(made)
    EDITS[edit](edited)
    assert edited != made
    assert wrong(edited) != []
