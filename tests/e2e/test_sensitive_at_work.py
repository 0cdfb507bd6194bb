"""Sensitive data at a real gateway: kept from strangers, masked in answers, and at home again."""

import json
import re
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.dlp.texts import IBAN, KEY
from tests.e2e.own import own_gateway
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, answer, behaves, told


def text_of(answered: Any) -> str:
    return str(answered.messages[-1]["result"]["content"][0]["text"])


async def leaks(request: web.Request) -> web.StreamResponse:
    """Answer a call of `page` with what is nobody's business."""
    message = json.loads(await request.read())
    if message.get("method") == "tools/call" and message["params"]["name"] == "page":
        return answer(message, told(f"the key is {KEY}, pay to {IBAN}"))
    return await behaves(request)


def test_it_is_kept_masked_and_brought_home(tmp_path: Path, raw: Raw, policies: Path) -> None:
    data = policies / "data.yaml"
    data.write_text(data.read_text() + "      iban: tokenize\n")
    with own_gateway(tmp_path, raw, policies, audit={"redaction": "full"}) as gateway:
        poster = Poster(gateway, "raw")
        # A key that nobody gave goes nowhere, whatever hides it.
        for said in (KEY, f"it is {KEY.encode().hex()} in hexadecimal"):
            refused = poster.call("allowed", {"text": said})
            assert refused.refusal == "denied"
            assert "sensitive_data" in json.dumps(refused.messages)
        assert raw.methods.count("tools/call") == 0
        raw.play(leaks)
        said, _, token = text_of(poster.call("page")).rpartition(" ")
        assert said == "the key is [api_key], pay to"
        assert re.fullmatch(r"<IBAN:[1-9][0-9]{5}>", token)
        # The server that gave the account gets it, and its answer says the token again.
        assert json.loads(text_of(poster.call("allowed", {"text": f"to {token}"}))) == {
            "text": f"to {token}"
        }
        assert raw.seen[-1].json["params"]["arguments"] == {"text": f"to {IBAN}"}
        unknown = poster.call("allowed", {"text": "<IBAN:7>"})
        assert "stands for nothing in this run" in json.dumps(unknown.messages)
        rows = json.dumps(gateway.running.rows("audit", "query"))
        assert token in rows
        for kept in (KEY, IBAN, KEY.encode().hex()):
            assert kept not in rows
            assert kept not in gateway.running.log
