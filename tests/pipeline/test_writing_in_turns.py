"""What others say is written so that nobody waits for a double that is far from one."""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gateway.audit.hashing import KeyedHash
from gateway.builtin import broker
from gateway.domain.decisions import Duty, Obligation
from gateway.domain.document import Document, plain
from gateway.domain.labels import ToolRule
from gateway.flow.listed import Listed
from gateway.pins.findings import findings_of
from gateway.pins.reading import parts_of
from gateway.pipeline import interceptions
from gateway.pipeline.filter import Carrier, meet
from gateway.pipeline.redacting import redacted
from tests.pins.pin_builders import definition, manifest
from tests.pipeline.house import House
from tests.pipeline.test_asking_people import EMMA, asks, kept, send

FAR = [1e300, -1e-300, 0.1, 1.0]
MAKE = getattr(json.encoder, "c_make_encoder")  # noqa: B009 - no stub has it
LARGE = 2**70
"""It has no canonical form, nor room in 64 bits."""


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the standard library write no more than a number or a text in one call."""

    def one(content: Any, write: Callable[[Any, int], Any], level: int) -> Any:
        assert not isinstance(content, dict | list | tuple), "it is written in one call"
        return write(content, level)

    def writer(*args: Any) -> Callable[[Any, int], Any]:
        return lambda content, level: one(content, MAKE(*args), level)

    monkeypatch.setattr(json.encoder, "c_make_encoder", writer)


def test_the_fixture_would_tell() -> None:
    with pytest.raises(AssertionError, match="in one call"):
        json.dumps(FAR)


def _cut(content: Mapping[str, Any]) -> Mapping[str, Any]:
    duty = Obligation(duty=Duty.TRUNCATE, detail={"bytes": 1000})
    return meet((duty,), content, Carrier.NOTIFICATION)


def _listed(content: Any) -> None:
    listed = Listed()
    listed.add([{"uri": "a", "_meta": content}])
    assert listed.count == 1


@pytest.mark.parametrize(
    "work",
    [
        _cut,
        broker._block,
        _listed,
        interceptions._digest,
        KeyedHash(b"k").of,
        lambda content: redacted({"paths": ["$.hidden"]}, content),
    ],
)
@pytest.mark.parametrize("content", [{"a": FAR}, {"b": LARGE, "a": FAR}, {"hidden": [FAR, "x"]}])
def test_what_servers_say_is_written_in_turns(
    work: Callable[[Any], Any], content: dict[str, Any]
) -> None:
    work(content)


def test_definitions_are_written_in_turns() -> None:
    written = Document.of({"name": "a", "inputSchema": {"enum": [FAR, {"b": FAR}], "const": FAR}})
    assert written.content["inputSchema"]["const"] == FAR
    assert Document(written.text) == written


def test_definitions_are_told_in_turns() -> None:
    schema = {"x-authzen-mapping": FAR, "properties": {"a": {"enum": [FAR]}, "b": {"const": FAR}}}
    shown = definition(inputSchema=schema)
    assert "1e+300" in str(parts_of(manifest(shown)))
    assert "1e+300" in str(findings_of(shown))


async def test_a_question_to_its_caller_is_written_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(tools={"send": ToolRule(destination=("to",), payload=("body",))})
    await house.approve_all()
    house.gate.people |= {"emma": EMMA}
    house.rule.says = asks
    house.rule.themselves = lambda _: True
    with monkeypatch.context() as patch:
        patch.setattr(json.encoder, "c_make_encoder", MAKE)
        call = send(house, {"to": "eve@evil.example", "far": FAR})
    await house.handle(call)
    (asked,) = kept(house)
    assert json.loads(asked.request.question)["arguments"]["far"] == FAR


def test_what_is_redacted_is_a_copy() -> None:
    content = {"a": [{"b": LARGE, "hidden": "secret"}], "c": None, "d": True}
    told = redacted({"paths": ["$.a[*].hidden"]}, content)
    assert told == {"a": [{"b": LARGE, "hidden": "[redacted]"}], "c": None, "d": True}
    assert content["a"][0]["hidden"] == "secret"  # type: ignore[index]


@pytest.mark.parametrize(
    ("content", "spelled"),
    [
        ({"b": [LARGE, *FAR], "a": "\u00e9\U0001f600"}, None),
        ({"b": {"d": None, "c": True}, "a": [[], {}]}, None),
        ({"a": LARGE}, b'{"a":1180591620717411303424}'),
        ([float("nan"), "\ud800"], b'[NaN,"\\ud800"]'),
    ],
)
def test_what_has_no_canonical_form_is_spelled_as_ever(
    monkeypatch: pytest.MonkeyPatch, content: Any, spelled: bytes | None
) -> None:
    """Of such values the log has hashes."""
    written = plain(content)
    monkeypatch.undo()
    assert written == json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    assert spelled is None or written == spelled


def test_a_hash_of_what_has_no_canonical_form_stays() -> None:
    spelled = b'{"a":[1e+300,"0x400000000000000000"],"b":9007199254740993}'
    found = KeyedHash(b"k").of({"b": 2**53 + 1, "a": [1e300, LARGE]})
    assert found == "b1:" + hmac.digest(b"k", spelled, hashlib.sha256).hex()
