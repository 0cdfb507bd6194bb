"""A real gateway tells a real receiver of questions and answers, over a restart as well."""

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.storage.store import Store
from tests.backends import FILES, only
from tests.e2e.own import own_gateway, until
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw
from tests.e2e.site import Corridor
from tests.servers.process import free_ports

POLICY = """\
package douane

decision := {"verdict": "ask", "reasons": [{"code": "outside", "message": "it goes outside"}]} if {
	input.phase == "call"
	not is_object(input.approval)
} else := {"verdict": "allow", "reasons": []}
"""
KEY = b"k" * 32


class Receiver(HTTPServer):
    """Keeps what it is sent, and takes none of it while it is `away`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.away = False
        self.got: list[dict[str, Any]] = []
        self.threads = threading.Thread(target=self.serve_forever)

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.got]


class _Handler(BaseHTTPRequestHandler):
    @property
    def receiver(self) -> Receiver:
        assert isinstance(self.server, Receiver)
        return self.server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        signed = (
            f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        )
        expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        assert self.headers["webhook-signature"] == f"v1,{expected}"
        if not self.receiver.away:
            self.receiver.got.append(json.loads(body))
        self.send_response(503 if self.receiver.away else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        server.threads.start()
        yield server
        server.shutdown()
        server.threads.join()


ALLOWS = """\
package douane

decision := {"verdict": "allow", "reasons": []}
"""


def secret_in(folder: Path) -> str:
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_text("whsec_" + base64.b64encode(KEY).decode())
    return f"file:{secret}"


async def lived(data_dir: Path, client: str) -> None:
    """Put weeks of an ordinary life into the log: ten calls a day, at the hour that it is now."""
    store = await Store.open(data_dir, clock=time.time)
    try:
        for number in range(250):
            moment = time.time() - 86400 * (25 - number // 10) + number % 10
            fields = {
                "principal": client,
                "client": client,
                "method": "tools/call",
                "server": "raw",
                "target": "allowed",
                "verdict": "allow",
            }
            await store.audit.append(
                AuditRecord(kind=RecordKind.OUTCOME, time=moment, id=f"{number}", fields=fields)
            )
    finally:
        await store.close()


@only(FILES)
def test_what_is_not_usual_is_on_record_and_told(
    tmp_path: Path, session_raw: Raw, receiver: Receiver
) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "allows.rego").write_text(ALLOWS)
    hook = {
        "url": f"http://127.0.0.1:{receiver.server_port}/hook",
        "secret": secret_in(tmp_path),
        "events": ["anomaly"],
    }
    folder, alerts = tmp_path / "g", {"webhooks": {"ops": hook}}
    with own_gateway(folder, session_raw, policies, alerts=alerts) as corridor:
        client = corridor.running.client("raw")["client_id"]
    asyncio.run(lived(folder / "data", client))
    with own_gateway(folder, session_raw, policies, alerts=alerts) as corridor:
        poster = Poster(corridor, "raw")
        for _ in range(250):  # two hours may share them
            assert "result" in poster.call("allowed", {"text": "x"}).json
        until(lambda: receiver.types)
        where = ("--where", "code = 'unusual_rate'")
        (row,) = corridor.running.rows("audit", "query", *where)
        assert (row["principal"], row["evidence"]["seen"]) == (client, 121)
        (message,) = receiver.got
        assert message["type"] == "anomaly.unusual_rate"
        assert message["data"]["command"] == f"douane audit show {row['id']}"
        assert corridor.running.rows("audit", "verify")[0]["ok"] is True


def asked(corridor: Corridor, text: str) -> str:
    refusal = Poster(corridor, "raw").call("allowed", {"text": text}).json["result"]["_meta"]
    id_: str = refusal["douane/refusal"]["approval_id"]
    return id_


def test_questions_and_answers_are_told_over_a_restart(
    tmp_path: Path, session_raw: Raw, receiver: Receiver
) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "asks.rego").write_text(POLICY)
    hook = {
        "url": f"http://127.0.0.1:{receiver.server_port}/hook",
        "secret": secret_in(tmp_path),
        "events": ["approval"],
    }
    alerts = {"webhooks": {"ops": hook}}
    ports = free_ports()
    with own_gateway(tmp_path / "g", session_raw, policies, ports=ports, alerts=alerts) as corridor:
        (row,) = corridor.running.rows("alerts", "test", "ops")
        assert row == {"webhook": "ops", "status": 204}
        first = asked(corridor, "one")
        until(lambda: receiver.types == ["ping", "approval.asked"])
        assert receiver.got[1]["data"]["command"] == f"douane approvals show {first}"
        corridor.running.rows("approvals", "deny", first)
        until(lambda: receiver.types[2:] == ["approval.denied"])
        receiver.away = True
        second = asked(corridor, "two")
        (row,) = until(
            lambda: [one for one in corridor.running.rows("alerts", "list") if one["failing"]]
        )
        assert row["host"] == "127.0.0.1"
        assert "secret" not in corridor.running.log
    receiver.away = False
    with own_gateway(tmp_path / "g", session_raw, policies, ports=ports, alerts=alerts) as corridor:
        until(lambda: receiver.types[3:] == ["approval.asked"])
        assert receiver.got[3]["data"]["approval_id"] == second
        states = corridor.running.rows("alerts", "state")
        assert [row["view"] for row in states] == ["principal", "client", "tool"]
        assert states[0]["known"] == 1
