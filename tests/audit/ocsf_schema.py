"""Makes a JSON Schema of a few OCSF classes from a checkout of github.com/ocsf/ocsf-schema.

    git -C ocsf-schema checkout 1.8.0
    python -m tests.audit.ocsf_schema ocsf-schema > tests/audit/data/ocsf-1.8.0.json

Only the objects in `_OBJECTS` are described; an attribute that needs another one is left out, and
so refused. The result is derived from the OCSF schema, which is under the Apache License 2.0.
"""

import json
import sys
from pathlib import Path
from typing import Any

CLASSES = {
    "6003": "events/application/api_activity.json",
    "6002": "events/application/application_lifecycle.json",
    "3002": "events/iam/authentication.json",
    "3004": "events/iam/entity_management.json",
    "2004": "events/findings/detection_finding.json",
}
_BASES = {
    "base_event": "events/base_event.json",
    "application": "events/application/application.json",
    "iam": "events/iam/iam.json",
    "finding": "events/findings/finding.json",
}
_PROFILES = ("security_control", "trace")
_OBJECTS = [
    "actor",
    "api",
    "evidences",
    "finding_info",
    "fingerprint",
    "group",
    "http_response",
    "managed_entity",
    "metadata",
    "network_endpoint",
    "object",
    "policy",
    "product",
    "request",
    "resource_details",
    "service",
    "trace",
    "user",
]
_BASIC = {
    "boolean_t": {"type": "boolean"},
    "float_t": {"type": "number"},
    "integer_t": {"type": "integer"},
    "json_t": {},
    "long_t": {"type": "integer"},
    "string_t": {"type": "string"},
}


class Schema:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        dictionary = self._read("dictionary.json")
        self._attributes: dict[str, Any] = dictionary["attributes"]
        self._types: dict[str, Any] = dictionary["types"]["attributes"]

    def whole(self) -> dict[str, Any]:
        version = self._read("version.json")["version"]
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$comment": f"Derived from github.com/ocsf/ocsf-schema {version}, Apache License 2.0.",
            "version": version,
            "classes": {uid: self._event(int(uid), at) for uid, at in CLASSES.items()},
            "$defs": {name: self._object(name) for name in _OBJECTS},
        }

    def _read(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._folder / path).read_text("utf-8"))
        return found

    def _object(self, name: str) -> dict[str, Any]:
        if name == "object":
            return {"type": "object"}
        return self._described(self._inherited(f"objects/{name}.json"))

    def _event(self, uid: int, path: str) -> dict[str, Any]:
        described = self._described(self._class(path))
        properties = described["properties"]
        properties["class_uid"] = {"const": uid}
        properties["category_uid"] = {"const": uid // 1000}
        activities = properties["activity_id"]["enum"]
        properties["type_uid"] = {"enum": [uid * 100 + activity for activity in activities]}
        return described

    def _class(self, path: str) -> dict[str, Any]:
        found = self._inherited(path)
        for profile in _PROFILES:
            for name, own in self._read(f"profiles/{profile}.json")["attributes"].items():
                found["attributes"][name] = {**own, **found["attributes"].get(name, {})}
        return found

    def _inherited(self, path: str) -> dict[str, Any]:
        own = self._read(path)
        base: dict[str, Any] = {"attributes": {}}
        if "extends" in own:
            parent = own["extends"]
            base = self._inherited(_BASES.get(parent, f"objects/{parent}.json"))
        attributes = dict(base["attributes"])
        for name, said in own["attributes"].items():
            if name != "$include":
                attributes[name] = _merged(attributes.get(name, {}), said)
        constraints = {**base.get("constraints", {}), **own.get("constraints", {})}
        return {"attributes": attributes, "constraints": constraints}

    def _described(self, found: dict[str, Any]) -> dict[str, Any]:
        properties = {
            name: described
            for name, said in sorted(found["attributes"].items())
            if (described := self._attribute(name, said)) is not None
        }
        required = sorted(
            name
            for name, said in found["attributes"].items()
            if said.get("requirement") == "required"
        )
        schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        if names := found.get("constraints", {}).get("at_least_one"):
            schema["anyOf"] = [{"required": [name]} for name in names if name in properties]
        return schema

    def _attribute(self, name: str, said: dict[str, Any]) -> dict[str, Any] | None:
        known = {**self._attributes[name], **said}
        kind = known["type"]
        if kind in self._types:
            described = self._basic(kind)
        elif kind in _OBJECTS:
            described = {"$ref": f"#/$defs/{kind}"}
        else:
            return None
        enum = {**self._attributes[name].get("enum", {}), **said.get("enum", {})}
        if enum and kind == "integer_t":
            described = {"enum": sorted(map(int, enum))}
        return {"type": "array", "items": described} if known.get("is_array") else described

    def _basic(self, kind: str) -> dict[str, Any]:
        if kind in _BASIC:
            return dict(_BASIC[kind])
        said = self._types[kind]
        described = self._basic(said["type"])
        if "regex" in said:
            described["pattern"] = said["regex"]
        if "max_len" in said:
            described["maxLength"] = said["max_len"]
        if "range" in said:
            described["minimum"], described["maximum"] = said["range"]
        return described


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = {**base, **own}
    if "enum" in base or "enum" in own:
        merged["enum"] = {**base.get("enum", {}), **own.get("enum", {})}
    return merged


if __name__ == "__main__":
    json.dump(Schema(Path(sys.argv[1])).whole(), sys.stdout, indent=1, sort_keys=True)
    print()
