"""What the gateway of these tests is told: labels, one rule, and who calls."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.running import EVERY_SCOPE, Running, endpoint_of

RULES = """\
package douane

deny contains {"code": "closed", "message": "this tool is closed"} if {
	input.phase == "call"
	input.target.name in {"denied", "get-sum", "delete_note", "write_file"}
}

deny contains {"code": "hidden", "message": "nobody is to know of this"} if {
	input.target.name in {"hidden", "raw://hidden", "get-env", "always_fails", "move_file"}
}

deny contains {"code": "too_much", "message": "this amount is too large"} if {
	input.phase == "call"
	input.target.name == "amounts"
	input.arguments.amount > 9007199254740990
}
"""
"""Of each server one tool is refused when it is called, and one is hidden."""

OURS = {"integrity": "trusted", "confidentiality": "internal"}
READS = {"effect": "read", "result": OURS}
FOREIGN = {"effect": "read", "result": {"integrity": "untrusted", "confidentiality": "private"}}


def _reads(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, READS)


SERVERS: Mapping[str, Mapping[str, Any]] = {
    "everything": {
        "defaults": OURS,
        "tools": _reads(
            "echo",
            "get-annotated-message",
            "get-env",
            "get-roots-list",
            "get-structured-content",
            "get-sum",
            "toggle-simulated-logging",
            "trigger-elicitation-request",
            "trigger-long-running-operation",
            "trigger-sampling-request",
        ),
    },
    "notes": {
        "defaults": OURS,
        "tools": {
            "write_note": {"effect": "write", "payload": ["text"], "result": OURS},
            "delete_note": {"effect": "destroy", "result": OURS},
        },
    },
    "filesystem": {
        "defaults": OURS,
        "tools": _reads("read_text_file", "write_file", "list_directory", "move_file"),
    },
    "raw": {
        "defaults": OURS,
        "tools": {
            **_reads("allowed", "denied", "hidden", "slow", "located", "amounts"),
            "page": FOREIGN,
            "remove": {"effect": "destroy", "result": OURS},
        },
    },
}
"""Everything but the URLs. With these labels the shipped policy allows all that `RULES` does not."""


_FRESH_S = 240
"""For how long a token is used again: less than half of what it lives."""


class Corridor:
    """The session's gateway; tokens are fetched again before they run out."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.url = running.url
        self._tokens: dict[tuple[str, str, tuple[str, ...]], tuple[float, str]] = {}

    @property
    def folder(self) -> Path:
        return self.running.folder

    def endpoint(self, server: str) -> str:
        return self.url + endpoint_of(server)

    def token(
        self, server: str, *, name: str = "agent", scopes: tuple[str, ...] = EVERY_SCOPE
    ) -> str:
        key, now = (server, name, scopes), time.monotonic()
        since, token = self._tokens.get(key, (-math.inf, ""))
        if now - since > _FRESH_S:
            token = self.running.token(server, name=name, scopes=scopes)
            self._tokens[key] = now, token
        return token
