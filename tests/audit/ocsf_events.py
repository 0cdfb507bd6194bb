"""What the schema of OCSF has to say against an event."""

import json
from pathlib import Path
from typing import Any

import orjson
from jsonschema import (  # type: ignore[import-untyped]  # it ships without stubs
    Draft202012Validator,
)

from gateway.audit.forms import Stored
from gateway.audit.ocsf import OCSF_VERSION, ocsf_event

SCHEMA = json.loads((Path(__file__).parent / "data" / f"ocsf-{OCSF_VERSION}.json").read_bytes())


def event_of(record: Stored) -> dict[str, Any]:
    """The event that a record is, as it is sent."""
    event = ocsf_event(record.body, record.members, version="1.2.3")
    found: dict[str, Any] = orjson.loads(orjson.dumps(event))
    return found


def problems(event: dict[str, Any]) -> list[str]:
    """What is wrong with it; nothing, if it is valid."""
    schema = {**SCHEMA["classes"][str(event["class_uid"])], "$defs": SCHEMA["$defs"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(event)]
