"""What `douane check` finds of others by asking them."""

import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config, load
from gateway.wiring.administration import probe, probe_issuers
from gateway.wiring.foundation import open_store
from gateway.wiring.policy_files import policy_files
from tests.admin.world import sighting

CONFIG = """\
version: 1
public_url: http://127.0.0.1:8080
auth:
  mode: federated
  providers: {{corp: {{issuer: "http://127.0.0.1:{port}", client_id: x}}}}
  enterprise: {{staff: {{issuer: "http://127.0.0.1:{port}/staff", jwks_url: "http://127.0.0.1:{port}/keys"}}}}
egress: {{allow: {allow}}}
"""


def config(folder: Path, port: int, allow: str) -> Config:
    (folder / "douane.yaml").write_text(CONFIG.format(port=port, allow=allow))
    return load(folder / "douane.yaml", {})


@pytest.mark.parametrize(
    ("allow", "why"), [("[]", "address that is not public"), ("[127.0.0.1]", "")]
)
async def test_a_provider_that_is_refused_or_down_is_told_with_its_place(
    tmp_path: Path, allow: str, why: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
    wrong = await probe_issuers(config(tmp_path, port, allow))
    assert set(wrong) == {
        f"auth.providers.corp.issuer: http://127.0.0.1:{port}",
        f"auth.enterprise.staff.issuer: http://127.0.0.1:{port}/staff",
    }
    assert all(why in told for told in wrong.values())
    assert all(told.count("`egress.allow`") == (allow == "[]") for told in wrong.values())


async def test_a_server_that_is_down_is_told_and_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
    text = f"servers: {{mail: {{url: 'http://127.0.0.1:{port}/mcp'}}}}\n"
    (tmp_path / "douane.yaml").write_text(CONFIG.format(port=port, allow="[]") + text)
    found = await probe(load(tmp_path / "douane.yaml", {}))
    assert (found.open, list(found.silent)) == ((), ["mail"])
    assert found.silent["mail"]


async def test_the_arguments_of_rules_are_compared_with_what_was_approved(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "own.rego").write_text(
        'package douane\n\ndecision := {"verdict": "deny", "reasons": [], "obligations": []} if {\n'
        "\tinput.arguments.amonut > 1\n}\n"
    )
    (tmp_path / "douane.yaml").write_text("version: 1\npublic_url: http://127.0.0.1:8080\n")
    found = load(tmp_path / "douane.yaml", {})
    assert (await policy_files(found).check())["problems"] == ()
    schema: dict[str, Any] = {"inputSchema": {"properties": {"amount": {}}}}
    async with open_store(found) as store:
        (pin,) = await store.pins.observe([sighting("pay", members=schema)])
        assert (await policy_files(found).check())["problems"] == ()
        digest = str(pin.observed.digest)
        await store.pins.approve(pin.target, pin.profile, expected=digest, by="sam", note="")
        for problems in ((await policy_files(found).check())["problems"],):
            assert [text.split("argument ")[1] for text in problems] == ["amonut; is amount meant?"]
    assert (await policy_files(found).check())["problems"] != ()
