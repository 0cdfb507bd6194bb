"""What a program hands over is strict JSON before anybody judges it, and so is what it gets."""

import datetime as dt
import json
import math
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import turns
from gateway.domain.programs import CallState
from gateway.sandbox import gate
from gateway.sandbox.gate import plain
from gateway.sandbox.monty import MontyEngine
from tests.sandbox.brokers import Scripted, program, unchanged

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_json_stays_as_it_is(value: Any) -> None:
    assert plain(value, 10_000) == value


def test_what_comes_out_is_nobody_elses() -> None:
    held = {"a": [1, {"b": 2}]}
    found = plain(held, 100)
    held["a"].append(3)
    assert found == {"a": [1, {"b": 2}]}


def test_python_becomes_the_json_that_is_sent() -> None:
    assert plain({1: (2, 3), None: True}, 100) == {"1": [2, 3], "null": True}


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        b"x",
        {1},
        dt.date(2026, 1, 1),
        object(),
        print,
        2**53,
        10**5000,
        "\ud800",
        {1: "a", "1": "b"},
        {(1, 2): 3},
    ],
    ids=[
        "nan",
        "infinity",
        "bytes",
        "set",
        "date",
        "object",
        "function",
        "large integer",
        "huge integer",
        "half a character",
        "two members of one name",
        "a name that is no text",
    ],
)
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"not JSON|beyond 2\^53-1|two members"):
        plain({"x": value} if not isinstance(value, dict) else value, 100_000)


@pytest.mark.parametrize("levels", [65, 2_000, 100_000])
def test_what_is_nested_too_deep_is_refused(levels: int) -> None:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    with pytest.raises(ValueError, match=r"deep|recursion"):
        plain(value, 10_000_000)


def test_what_is_small_and_would_be_written_large_is_refused_unwritten() -> None:
    text = "x" * 1000
    shared: Any = [1]
    for _ in range(60):
        shared = [shared, shared]
    for value in ([text] * 10**6, {"a": [[text] * 1000] * 1000}, shared, {text * 300: 1}):
        with pytest.raises(ValueError, match="more than 262144 bytes of JSON"):
            plain(value, 262_144)


@given(json_values)
def test_what_fits_is_not_taken_for_large(value: Any) -> None:
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    assert plain(value, size) == value
    with pytest.raises(ValueError, match="more than"):
        plain(value, size - 1)


async def test_the_broker_is_handed_plain_json_alone(engine: MontyEngine) -> None:
    broker = Scripted()
    code = "x: dict = {1: (2, 3), 'd': {'k': None}}\nawait git.list(**{'a b': x, '__class__': 1})"
    result = await engine.run(program(code), broker, redact=unchanged)
    assert result.error == ""
    assert broker.made == [
        (1, "git/list", {"a b": {"1": [2, 3], "d": {"k": None}}, "__class__": 1})
    ]


async def test_arguments_can_be_one_dict_and_nothing_beside(engine: MontyEngine) -> None:
    broker = Scripted()
    code = """said = []
for given in (([{"a": 1}], {}), ([1], {}), ([{}, {}], {}), ([{}], {"b": 1})):
    f: object = git.list
    try:
        said.append(await eval("f(*given[0], **given[1])"))
    except RuntimeError as e:
        said.append(str(e))
said"""
    result = await engine.run(program(code), broker, redact=unchanged)
    refused = "ToolError[invalid_arguments] git.list: the arguments are to be given by name, or as one dict"
    assert result.value == [{"number": 1}, refused, refused, refused]
    assert [made[2] for made in broker.made] == [{"a": 1}]


@pytest.mark.parametrize(
    "value", [math.nan, object(), b"x", {"f": print}], ids=["nan", "object", "bytes", "function"]
)
async def test_a_result_that_is_no_json_reaches_no_program(value: Any, engine: MontyEngine) -> None:
    async def strange(_: str, __: Mapping[str, Any], ___: int) -> Any:
        return value

    result = await engine.run(
        program("await git.create_issue(title='a')"), Scripted(strange), redact=unchanged
    )
    assert "ToolError[invalid_result]" in result.error
    assert [call.state for call in result.side_effects] == [CallState.FAILED]


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (5_000, True)])
async def test_what_is_large_becomes_json_beside_the_loop(
    engine: MontyEngine, monkeypatch: pytest.MonkeyPatch, size: int, leaves: bool
) -> None:
    """The arguments of a call, its result, and the last value."""
    ran: list[bool] = []

    def noting(content: Any, most: int) -> Any:
        ran.append(threading.get_ident() != loop)
        return plain(content, most)

    async def same(_: str, arguments: Mapping[str, Any], __: int) -> Any:
        return arguments["a"]

    loop = threading.get_ident()
    monkeypatch.setattr(gate, "plain", noting)
    code = f"await git.list(a=[0] * {size})"
    result = await engine.run(program(code), Scripted(same), redact=unchanged)
    assert result.value == [0] * size
    assert ran == [leaves] * 3


@pytest.mark.parametrize("code", ['"a"', "[''] * 5000", "raise ValueError('a')"])
async def test_what_a_program_tells_is_screened_beside_the_loop(
    engine: MontyEngine, code: str
) -> None:
    """Also what is short: looking for a secret in it can take long."""
    loop, ran = threading.get_ident(), set[int]()

    def redact(text: str) -> str:
        ran.add(threading.get_ident())
        return text

    await engine.run(program(f"print('a')\n{code}"), Scripted(), redact=redact)
    assert ran
    assert loop not in ran


async def test_what_is_large_becomes_json_however_much_waits(
    engine: MontyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_TURNS", turns.Turns(most_waiting=0))
    code = "(await git.list(a=[0] * 5000)) and ['a'] * 5000"
    broker = Scripted()
    result = await engine.run(program(code), broker, redact=unchanged)
    assert result.error == ""
    assert result.value == ["a"] * 5_000
    assert len(broker.made[0][2]["a"]) == 5_000
