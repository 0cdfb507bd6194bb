"""Attacks on whatever runs code, by their ids: each ends with an error that says what there is not.

What stops them is that it is not there, and not how the text is spelled. X02, a local server that is
started in another way than was approved, is refused with `pin_drift` (`tests/pins/test_pin_verify.py`).
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.decisions import Verdict
from gateway.domain.programs import SandboxLimits
from gateway.sandbox.monty import monty_engine
from tests.builtin.front import Site
from tests.pipeline.house import decision

SECRET = "canary-5f20c1e7"
SUBCLASSES = "().__class__.__mro__[1].__subclasses__()"

ATTACKS = {
    "X03-subclasses": (SUBCLASSES, "AttributeError"),
    "X03-getattr": ('getattr(getattr((), "__cla" + "ss__"), "__mro__")', "AttributeError"),
    "X03-globals": ('(lambda: 0).__globals__["__builtins__"]', "AttributeError"),
    "X03-format": ('"{0.__class__.__mro__}".format(())', "AttributeError"),
    "X03-ctypes": ("import ctypes\nctypes.CDLL(None)", "ModuleNotFoundError"),
    "X03-dunder-import": ('__import__("os").system("id")', "NameError"),
    "X04-socket": (
        'import socket\nsocket.create_connection(("127.0.0.1", 80))',
        "ModuleNotFoundError",
    ),
    "X04-environment": ('import os\nos.environ["EXEC_CANARY"]', "'os.environ' is not supported"),
    "X04-getenv": ('import os\nos.getenv("EXEC_CANARY")', "'os.getenv' is not supported"),
    "X04-proc": ('open("/proc/self/environ").read()', "PermissionError"),
    "X04-proc-of-ours": ('open("/proc/1/environ").read()', "PermissionError"),
    "X04-metadata": (
        'import urllib.request\nurllib.request.urlopen("http://169.254.169.254/latest/meta-data/")',
        "ModuleNotFoundError",
    ),
    "X04-metadata-by-hand": (
        'import http.client\nhttp.client.HTTPConnection("169.254.169.254").request("GET", "/")',
        "ModuleNotFoundError",
    ),
    "X04-process": ('import subprocess\nsubprocess.run(["id"])', "ModuleNotFoundError"),
}


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setenv("EXEC_CANARY", SECRET)
    limits = SandboxLimits(wall_s=10.0, interpreter_s=2.0)
    async with monty_engine(limits, tmp_path, warm=0, type_check=False) as engine:
        made = await Site(engine=engine).furnish()
        yield made
        await made.aclose()


async def run(site: Site, code: str) -> Any:
    seen = await site.ask("tools/call", {"name": "run_code", "arguments": {"code": code}})
    return json.loads(seen.json["result"]["content"][0]["text"])


@pytest.mark.parametrize("attack", ATTACKS)
async def test_an_attack_on_what_runs_code_ends_with_what_is_not_there(
    site: Site, attack: str
) -> None:
    code, error = ATTACKS[attack]
    found = await run(site, code)
    assert found["status"] == "error"
    assert error in found["error"]
    assert SECRET not in json.dumps(found)
    assert site.house.server.saw == []
    assert site.house.last["script_sha256"]


async def test_x03_no_text_is_refused_for_how_it_reads(site: Site) -> None:
    found = await run(site, f"text = {SUBCLASSES!r}\nlen(text)")
    assert (found["status"], found["value"]) == ("ok", len(SUBCLASSES))


async def test_r09_what_policy_denies_outside_it_denies_inside_with_the_same_code(
    site: Site,
) -> None:
    site.house.rule.says = lambda question: (
        decision(Verdict.DENY, "not_for_you")
        if question["phase"] == "call" and question["target"]["name"] == "send"
        else Verdict.ALLOW
    )
    direct = await site.ask("tools/call", {"name": "mail__send", "arguments": {"to": "x"}})
    inside = await run(site, "import tools\nawait tools.mail.send(to='x')")
    assert direct.reply.code == inside["calls"][0]["code"] == "denied"
    assert "not_for_you" in inside["error"]
    assert site.house.server.saw == []
