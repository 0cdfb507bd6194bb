"""Values of the chart as installations write them."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

VALUES = Path(__file__).parent / "chart_values.yaml"
_VALUES: Mapping[str, Any] = yaml.safe_load(VALUES.read_text())

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "as it comes": {},
    "all that it has": {
        "autoscaling": {"enabled": True},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "ingress": {"enabled": True, "tlsSecret": "mcp-example-com-tls"},
        "image": {"digest": f"sha256:{'a' * 64}", "pullSecrets": ["registry"]},
        "policy": {"configMap": "douane-policy"},
        "podAnnotations": {"example.com/team": "security"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "secretFiles": {
            "pgpass": {"secret": "douane", "key": "pgpass"},
            "database-ca": {"secret": "douane-db-ca", "key": "ca.crt"},
        },
        "network": {
            "others": {
                "identity": {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "port": 443},
            }
        },
        "config": {"limits": {"request_bytes": 10_000_000}, "storage": {"durability": "process"}},
    },
    "one gateway with a file": {
        "replicas": 1,
        "storage": {"kind": "sqlite", "claim": "douane"},
    },
}


def given(**more: Any) -> dict[str, Any]:
    """Return the values of an installation, with others laid over them as Helm does."""
    return _over(copy.deepcopy(dict(_VALUES)), more)


def _over(values: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    for key, content in more.items():
        both = isinstance(content, dict) and isinstance(values.get(key), dict)
        values[key] = _over(values[key], content) if both else content
    return values
