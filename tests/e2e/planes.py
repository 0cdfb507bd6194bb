"""A small reference plane: it asks before it sends and reports what came, and does nothing else."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.backends import SHARED

ISSUER = "https://idp.example"
EVALUATION = "/access/v1/evaluation"
REQUESTS = "/access/v1/requests"


def key_of(name: str) -> str:
    return f"{name}-0123456789abcdef0123456789abcdef"


def registered(folder: Path, **planes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `planes.authzen`, and write each one's key into `folder`."""
    for name in planes:
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(key_of(name))
    return {name: {**plane, "key": f"file:{folder / name}"} for name, plane in planes.items()}


def asking(folder: Path, **planes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings by which these planes ask, where there can be any."""
    return {} if SHARED else {"planes": {"authzen": registered(folder, **planes)}}


@dataclass(frozen=True, kw_only=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def decision(self) -> bool:
        assert self.status == 200, self.body
        decision: bool = self.body["decision"]
        return decision

    @property
    def context(self) -> Mapping[str, Any]:
        context: Mapping[str, Any] = self.body["context"]
        return context

    @property
    def reason(self) -> str:
        return str(self.context.get("reason", ""))

    @property
    def codes(self) -> set[str]:
        return {one["code"] for one in self.context["reasons"]}


@dataclass(frozen=True, kw_only=True)
class ReferencePlane:
    """Speaks for `subject` and `agent` to the decision point at `url`."""

    url: str
    name: str
    subject: str = "alice"
    agent: str = "assistant"
    properties: Mapping[str, Any] = field(default_factory=lambda: {"roles": ["users"]})

    def send(
        self, body: bytes, *, path: str = EVALUATION, method: str = "POST", **headers: str
    ) -> Answered:
        """Send `body` as it is. A header's underscores become hyphens; an empty one is left out."""
        fields = {
            "authorization": f"Bearer {key_of(self.name)}",
            "content-type": "application/json",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        sent = {name: text for name, text in fields.items() if text}
        request = urllib.request.Request(
            self.url + path, body if method == "POST" else None, sent, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answered(
                    status=answer.status,
                    headers={k.lower(): v for k, v in answer.headers.items()},
                    body=json.load(answer),
                )
        except urllib.error.HTTPError as error:
            told = {k.lower(): v for k, v in error.headers.items()}
            return Answered(status=error.code, headers=told, body=error.read().decode())

    def question(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        server: str | None = "raw",
        action: str = "tools/call",
        type_: str = "tool",
        **context: Any,
    ) -> dict[str, Any]:
        """Return the question about a call, shaped as the COAZ-MCP binding shapes it."""
        properties = {} if server is None else {"server": server}
        return {
            "subject": {"type": "identity", "id": self.subject, "properties": self.properties},
            "action": {"name": action},
            "resource": {"type": type_, "id": tool, "properties": properties},
            "context": {"agent": self.agent, "arguments": arguments or {}, **context},
        }

    def post(self, question: Mapping[str, Any], **headers: str) -> Answered:
        return self.send(json.dumps(question).encode(), **headers)

    def submit(self, question: Mapping[str, Any], refused: Answered, *, key: str = "") -> Answered:
        """Submit a refusal, as the access request and approval profile has it."""
        told = refused.context["access_request"]
        denial = {
            "evaluation_id": refused.context["evaluation_id"],
            "binding_token": told["binding_token"],
            "expires_at": told["expires_at"],
        }
        body = json.dumps({**question, "denial": denial}).encode()
        return self.send(body, path=REQUESTS, idempotency_key=key)

    def ask(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Answered:
        return self.post(self.question(tool, arguments, **more))

    def report(self, tool: str, decision: str, result: Mapping[str, Any], **more: Any) -> Answered:
        told = {"phase": "result", "decision_id": decision, "result": result}
        question = self.question(tool, **more)
        return self.post({**question, "context": {**question["context"], **told}})
