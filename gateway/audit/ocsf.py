"""Records as events of the Open Cybersecurity Schema Framework (OCSF), for whoever collects these.

What has no place there is told beside it: the whole record stands under `unmapped`.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.domain._value import value

OCSF_VERSION = "1.8.0"

_PRODUCT = "Douane"
_OTHER = 99
_UNKNOWN = {"type_id": 0, "type": "Unknown", "name": "unknown"}
_ALERTS = ("unusual_", "lookalike_", "egress_refused", "witness_disagrees", "gap")
"""How the codes of system records begin that tell of something found."""
_DRIFT = frozenset({"changed", "unpinnable"})


@value
class _Class:
    """An event class: its numbers and its name."""

    uid: int
    name: str
    category: int
    category_name: str


_API = _Class(uid=6003, name="API Activity", category=6, category_name="Application Activity")
_LIFE = _Class(
    uid=6002, name="Application Lifecycle", category=6, category_name="Application Activity"
)
_SIGN_IN = _Class(
    uid=3002, name="Authentication", category=3, category_name="Identity & Access Management"
)
_ENTITY = _Class(
    uid=3004, name="Entity Management", category=3, category_name="Identity & Access Management"
)
_FINDING = _Class(uid=2004, name="Detection Finding", category=2, category_name="Findings")

_SIGN_INS: Mapping[str, tuple[int, str]] = {
    "sign-in": (1, "Logon"),
    "sign-out": (2, "Logoff"),
    "oauth/token": (3, "Authentication Ticket"),
    "oauth/authorize": (6, "Preauth"),
}
_LIVES: Mapping[str, tuple[int, str]] = {"started": (3, "Start"), "stopped": (4, "Stop")}
_CHANGES: Mapping[str, tuple[int, str]] = {
    "observed": (1, "Create"),
    "registered": (1, "Create"),
    "reloaded": (3, "Update"),
    "removed": (4, "Delete"),
    "approved": (8, "Enable"),
    "revoked": (9, "Disable"),
    "activated": (10, "Activate"),
}
_DISPOSITIONS: Mapping[str, tuple[int, str, int, str]] = {
    "allow": (1, "Allowed", 1, "Allowed"),
    "approve": (1, "Allowed", 8, "Approved"),
    "ask": (2, "Denied", 14, "Delayed"),
    "deny": (2, "Denied", 2, "Blocked"),
    "hold": (2, "Denied", 14, "Delayed"),
    "serve_approved": (2, "Denied", 9, "Restored"),
    "error": (2, "Denied", 27, "Error"),
}
_SEVERITIES = {1: "Informational", 2: "Low", 3: "Medium", 4: "High"}


def ocsf_event(body: bytes, record: Mapping[str, Any], *, version: str) -> dict[str, Any]:
    """Return a record as one OCSF event; `body` are its bytes, `version` is this program's.

    `record` is what is parsed from these, with `leaf_index` and `leaf_hash`.
    """
    event_class, (activity, activity_name), own = _classified(record)
    severity = _severity(event_class, record)
    return {
        "activity_id": activity,
        "activity_name": activity_name,
        "category_uid": event_class.category,
        "category_name": event_class.category_name,
        "class_uid": event_class.uid,
        "class_name": event_class.name,
        "type_uid": event_class.uid * 100 + activity,
        "type_name": f"{event_class.name}: {activity_name}",
        "time": _milliseconds(record["time"]),
        "severity_id": severity,
        "severity": _SEVERITIES[severity],
        "message": summary(record),
        "metadata": _metadata(event_class, record, version),
        "raw_data_hash": {
            "algorithm_id": 3,
            "algorithm": "SHA-256",
            "value": hashlib.sha256(body).hexdigest(),
        },
        "raw_data_size": len(body),
        **_status(event_class, record),
        **_control(record),
        **own,
        "unmapped": dict(record),
    }


def summary(record: Mapping[str, Any]) -> str:
    """Return a record in one line for people: what, of whom, what about, and why."""
    subject = "/".join(_texts(record, "server", "target"))
    words = [
        *_texts(record, "kind", "method"),
        *([subject] if subject else []),
        *([f"by {record['principal']}"] if record.get("principal") else []),
    ]
    outcome = ", ".join(_texts(record, "verdict", "code"))
    return " ".join(words) + (f": {outcome}" if outcome else "")


def _classified(
    record: Mapping[str, Any],
) -> tuple[_Class, tuple[int, str], dict[str, Any]]:
    """Return a record's class, its activity, and the attributes of that class alone."""
    kind, code, method = record["kind"], _text(record, "code"), _text(record, "method")
    if kind in {"auth", "token"}:
        activity = _SIGN_INS.get(method.partition("/")[0]) or _SIGN_INS.get(method)
        return _SIGN_IN, activity or _other(method or kind), _sign_in(record)
    if (kind == "pin" and code in _DRIFT) or kind == "gap" or code.startswith(_ALERTS):
        return _FINDING, (1, "Create"), _finding(record)
    if kind == "system":
        app = {"name": _PRODUCT, "vendor_name": _PRODUCT, "uid": record["log_id"]}
        return _LIFE, _LIVES.get(code) or _other(code or kind), {"app": app}
    if kind in {"pin", "policy", "config", "approval", "admin"}:
        activity = _CHANGES.get(code)
        return _ENTITY, activity or _other(method or code or kind), _entity(record)
    reads = kind == "list" or record.get("effect") == "read"
    return _API, (2, "Read") if reads else _other("Invoke"), _call(record)


def _call(record: Mapping[str, Any]) -> dict[str, Any]:
    api: dict[str, Any] = {"operation": _text(record, "method") or record["kind"]}
    if server := _text(record, "server"):
        api["service"] = {"name": server}
    if decision := _text(record, "decision_id"):
        api["request"] = {"uid": decision}
    if revision := _text(record, "revision"):
        api["version"] = revision
    own: dict[str, Any] = {"actor": _actor(record), "api": api, "src_endpoint": _source(record)}
    if target := _text(record, "target"):
        resource = {"name": target, "type": "tool" if api["operation"] == "tools/call" else "item"}
        if digest := _text(record, "pin_digest"):
            resource["uid"] = digest
        own["resources"] = [resource]
    if type(status := record.get("upstream_status")) is int:
        own["http_response"] = {"code": status}
    if trace := _text(record, "trace_id"):
        own["trace"] = {"uid": trace}
    return own


def _sign_in(record: Mapping[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {"user": _user(record), "service": {"name": _PRODUCT}}
    if record.get("source_ip"):
        own["src_endpoint"] = _source(record)
    if record.get("client"):
        own["actor"] = {"app_uid": record["client"]}
    if _text(record, "method").startswith("oauth/"):
        own |= {"auth_protocol_id": 6, "auth_protocol": "OAUTH 2.0"}
    return own


def _entity(record: Mapping[str, Any]) -> dict[str, Any]:
    kind = record["kind"]
    name = "/".join(_texts(record, "server", "target")) or _text(record, "method") or kind
    entity: dict[str, Any] = {"name": name, "type_id": _OTHER, "type": kind}
    if kind == "policy":
        entity |= {"type_id": 5, "type": "Policy"}
    of_kind = {"pin": "pin_digest", "policy": "policy_digest", "approval": "approval_id"}
    if uid := _text(record, of_kind.get(kind, "")):
        entity["uid"] = uid
    own: dict[str, Any] = {"actor": _actor(record), "entity": entity}
    if record.get("source_ip"):
        own["src_endpoint"] = _source(record)
    return own


def _finding(record: Mapping[str, Any]) -> dict[str, Any]:
    reasons = _reasons(record)
    info: dict[str, Any] = {
        "uid": record["id"],
        "title": summary(record),
        "types": [_text(record, "code") or record["kind"]],
        "created_time": _milliseconds(record["time"]),
    }
    if reasons:
        info["desc"] = reasons
    own: dict[str, Any] = {"finding_info": info, "is_alert": True}
    if target := "/".join(_texts(record, "server", "target")):
        own["resources"] = [{"name": target, "type": "item"}]
    if record.get("principal"):
        own["evidences"] = [{"actor": _actor(record)}]
    return own


def _metadata(event_class: _Class, record: Mapping[str, Any], version: str) -> dict[str, Any]:
    traced = event_class is _API and _text(record, "trace_id")
    found: dict[str, Any] = {
        "version": OCSF_VERSION,
        "product": {"name": _PRODUCT, "vendor_name": _PRODUCT, "version": version},
        "profiles": ["security_control", "trace"] if traced else ["security_control"],
        "uid": record["id"],
        "event_code": ".".join(_texts(record, "kind", "code")),
        "log_name": record["log_id"],
        "original_time": record["time"],
        "sequence": record["leaf_index"],
    }
    if correlation := _text(record, "run") or _text(record, "decision_id"):
        found["correlation_uid"] = correlation
    if record.get("truncated"):
        found["is_truncated"] = True
    return found


def _status(event_class: _Class, record: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if code := _text(record, "code"):
        found["status_code"] = code
    if reasons := _reasons(record):
        found["status_detail"] = reasons
    if event_class is _FINDING:
        return {**found, "status_id": 1, "status": "New"}
    failed = _text(record, "verdict") in {"deny", "error", "ask", "hold"}
    return {**found, "status_id": 2 if failed else 1, "status": "Failure" if failed else "Success"}


def _control(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the profile `security_control`: what was decided, and by what."""
    found: dict[str, Any] = {}
    decided = _DISPOSITIONS.get(_text(record, "verdict"))
    if decided is not None:
        names = ("action_id", "action", "disposition_id", "disposition")
        found = dict(zip(names, decided, strict=True))
    if digest := _text(record, "policy_digest"):
        found["policy"] = {"name": "policy", "uid": digest}
    return found


def _severity(event_class: _Class, record: Mapping[str, Any]) -> int:
    if event_class is _FINDING:
        return 4
    return {"deny": 3, "error": 3, "ask": 2, "hold": 2}.get(_text(record, "verdict"), 1)


def _actor(record: Mapping[str, Any]) -> dict[str, Any]:
    actor: dict[str, Any] = {"user": _user(record)}
    if client := _text(record, "client"):
        actor["app_uid"] = client
    return actor


def _user(record: Mapping[str, Any]) -> dict[str, Any]:
    principal = _text(record, "principal")
    if not principal:
        return dict(_UNKNOWN)
    user: dict[str, Any] = {"name": principal, "uid": principal}
    roles = record.get("roles")
    if isinstance(roles, list) and roles:
        user["groups"] = [{"name": str(role)} for role in roles]
    return user


def _source(record: Mapping[str, Any]) -> dict[str, Any]:
    # A program's calls come from within, and those of a command from this machine.
    address = _text(record, "source_ip")
    return {"ip": address} if address else {"svc_name": _PRODUCT}


def _reasons(record: Mapping[str, Any]) -> str:
    reasons = record.get("reasons")
    told = reasons if isinstance(reasons, list) else []
    return "; ".join(
        ": ".join(_texts(reason, "code", "message")) for reason in told if isinstance(reason, dict)
    )


def _other(name: str) -> tuple[int, str]:
    return _OTHER, name


def _texts(record: Mapping[str, Any], *names: str) -> list[str]:
    return [text for name in names if (text := _text(record, name))]


def _text(record: Mapping[str, Any], name: str) -> str:
    content = record.get(name)
    return content if isinstance(content, str) else ""


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
