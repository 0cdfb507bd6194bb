"""What every manifest of ours has to hold: the strictest Pod Security Standard, and more.

`wrong` reads what Helm or Kustomize made, whatever made it. It says yes to nothing that it does not know:
kinds, volumes and sources of files are lists of what may be there.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.wiring.serving import _PLANES_S
from gateway.wiring.tenure import DRAIN_S
from tests.deploy.kube import Manifest, one

KINDS = {
    *(
        "ConfigMap",
        "Deployment",
        "HorizontalPodAutoscaler",
        "Ingress",
        "Namespace",
        "NetworkPolicy",
    ),
    *("PodDisruptionBudget", "Service", "ServiceAccount", "ServiceMonitor"),
}
"""No Secret, whose content would be in a chart; no Role, for nothing is asked of the cluster."""
VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "projected"}
HARDENED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
POD = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "fsGroup": 65532,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
PROBES = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
READ_ONLY = {"config", "policy", "given"}
LAST_WORDS_S = 5
"""What is waiting is written, and the log is signed."""


def wrong(manifests: list[Manifest]) -> list[str]:
    """Return what they lack; nothing if they hold everything."""
    kinds = {each["kind"] for each in manifests}
    unknown = [f"kind {kind}" for kind in kinds - KINDS]
    deployment = one(manifests, "Deployment")
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    return [
        *unknown,
        *_pod(pod["spec"]),
        *_account(manifests, pod["spec"]),
        *_network(manifests, labels),
        *_ends(pod["spec"]),
        *_several(manifests, deployment["spec"], labels),
    ]


def _pod(spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("securityContext") != POD:
        yield "the pod's user, or its filter of system calls"
    for key in (
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "shareProcessNamespace",
        "ephemeralContainers",
    ):
        if spec.get(key):
            yield key
    for volume in spec["volumes"]:
        for kind in volume.keys() - {"name"} - VOLUMES:
            yield f"volume {volume['name']}: {kind}"
        for source in volume.get("projected", {}).get("sources", ()):
            if source.keys() != {"secret"}:
                yield f"volume {volume['name']}: {sorted(source)}"
    for container in (*spec["initContainers"], *spec["containers"]):
        yield from _container(container)


def _container(container: Mapping[str, Any]) -> Iterator[str]:
    name = container["name"]
    if container.get("securityContext") != HARDENED:
        yield f"{name}: securityContext"
    if "memory" not in container.get("resources", {}).get("limits", {}):
        yield f"{name}: takes the node's memory"
    if container.get("envFrom") or any("value" not in each for each in container.get("env", ())):
        yield f"{name}: a secret in the environment"
    if any("hostPort" in port for port in container.get("ports", ())):
        yield f"{name}: hostPort"
    for mount in container["volumeMounts"]:
        writes = name == "secrets" and mount["name"] == "secrets"
        if mount["name"] in READ_ONLY | {"secrets"} and not (writes or mount.get("readOnly")):
            yield f"{name}: may write {mount['name']}"


def _account(manifests: list[Manifest], spec: Mapping[str, Any]) -> Iterator[str]:
    account = one(manifests, "ServiceAccount")
    if spec["serviceAccountName"] != account["metadata"]["name"]:
        yield "somebody else's account"
    if account.get("automountServiceAccountToken") is not False:
        yield "the account gives its token away"
    if spec.get("automountServiceAccountToken") is not False:
        yield "the pod has a token"
    if spec.get("enableServiceLinks") is not False:
        yield "the pod is told of every service"


def _network(manifests: list[Manifest], labels: Mapping[str, str]) -> Iterator[str]:
    policies = [each["spec"] for each in manifests if each["kind"] == "NetworkPolicy"]
    if len(policies) != 1:
        yield "no network policy"
        return
    (policy,) = policies
    if policy["podSelector"] != {"matchLabels": labels}:
        yield "the network policy is for other pods"
    if sorted(policy["policyTypes"]) != ["Egress", "Ingress"]:
        yield "the network policy leaves a direction open"
    for rule in policy["egress"]:
        yield from _listed("egress", rule.get("to"), rule.get("ports"))
    for rule in policy["ingress"]:
        yield from _listed("ingress", rule.get("from"), rule.get("ports"))
    asked = {port["port"] for rule in policy["ingress"] for port in rule.get("ports", ())}
    if not asked <= {8080, 8081}:
        yield f"ingress to {sorted(asked)}"


def _listed(way: str, peers: Any, ports: Any) -> Iterator[str]:
    """Somebody in particular, at ports in particular: what is left out means all."""
    if not ports or not all("port" in port for port in ports):
        yield f"{way}: every port"
    if not peers:
        yield f"{way}: everybody"
    for peer in peers or ():
        selectors = [peer[key] for key in ("podSelector", "namespaceSelector") if key in peer]
        if not peer or not all(selectors):
            yield f"{way}: everybody"
        if peer.get("ipBlock", {}).get("cidr", "").endswith("/0"):
            yield f"{way}: everywhere"


def _ends(spec: Mapping[str, Any]) -> Iterator[str]:
    (gateway,) = spec["containers"]
    for probe, path in PROBES.items():
        if gateway.get(probe, {}).get("httpGet") != {"path": path, "port": "admin"}:
            yield f"{probe}: not {path}"
    stop = gateway.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["", "0"])
    if stop[0] != "sleep" or int(stop[1]) < 1:
        yield "it ends before anybody in front knows"
    needed = int(stop[1]) + DRAIN_S + _PLANES_S + LAST_WORDS_S
    if spec["terminationGracePeriodSeconds"] < needed:
        yield "calls under way are cut off"


def _several(
    manifests: list[Manifest], deployment: Mapping[str, Any], labels: Mapping[str, str]
) -> Iterator[str]:
    if deployment["selector"] != {"matchLabels": labels}:
        yield "the deployment is of other pods"
    services = [each["spec"] for each in manifests if each["kind"] == "Service"]
    if any(service["selector"] != labels for service in services):
        yield "a service is of other pods"
    has_scaler = any(each["kind"] == "HorizontalPodAutoscaler" for each in manifests)
    if has_scaler == ("replicas" in deployment):
        yield "how many there are is said twice, or not at all"
    if deployment["strategy"] == {"type": "Recreate"}:
        if deployment.get("replicas") != 1:
            yield "several on one file"
        return
    if deployment["strategy"].get("rollingUpdate", {}).get("maxUnavailable") != 0:
        yield "one of them goes before another one comes"
    budgets = [each["spec"] for each in manifests if each["kind"] == "PodDisruptionBudget"]
    if [each["selector"] for each in budgets] != [{"matchLabels": labels}]:
        yield "no budget of disruptions"
