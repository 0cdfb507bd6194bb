"""What a call can pass through is named, measured, and stands on few things."""

import sys
from pathlib import Path

import pytest

import gateway
from benchmarks import size
from tests.architecture.test_the_road import walked
from tests.backends import ROAD, only
from tests.within import prepared, within

MOST_CORE = 35_933
"""Code lines. They may only become fewer."""

HEARERS = ("gateway.admin", "gateway.behaviour", "gateway.builtin", "gateway.export")
"""Are told of calls, or of servers, and decide on none."""
PUTS_TOGETHER = "gateway.wiring"

STANDS_ON = {
    "aiohappyeyeballs": "connections to servers",
    "aiohttp": "OPA as a server, connections to servers",
    "cryptography": "signatures and sealing",
    "joserfc": "tokens",
    "jsonschema_rs": "arguments by their approved schema",
    "mcp": "what a header may repeat of an argument",
    "msgspec": "frozen values",
    "numpy": "what a call carries of earlier results",
    "opa_client": "OPA as a server",
    "orjson": "JSON",
    "phonenumbers": "sensitive data by its form",
    "prometheus_client": "metrics",
    "re2": "expressions in linear time",
    "rfc8785": "hashes of JSON",
    "sqlite_utils": "tables",
    "starlette": "HTTP",
    "stdnum": "sensitive data by its form",
    "wasmtime": "policy",
    "watchfiles": "policy that changed",
    "yaml": "data of policy",
    "yarl": "addresses of servers",
}


@pytest.fixture(scope="module")
def sources() -> dict[str, bytes]:
    return size.modules()


def test_the_core_becomes_no_larger(sources: dict[str, bytes]) -> None:
    trusted = size.core(sources)
    assert size.by_room(sources, trusted).total() <= MOST_CORE
    assert not {name for name in trusted if name.startswith((*HEARERS, PUTS_TOGETHER))}


def test_the_core_stands_on_what_is_named(sources: dict[str, bytes]) -> None:
    whole = {
        name.split(".")[0] for one in size.core(sources) for name in size.all_imported(sources[one])
    }
    assert whole - {"gateway"} - sys.stdlib_module_names == {*STANDS_ON}


@only(ROAD)
async def test_a_call_passes_through_the_core_alone(
    tmp_path: Path, sources: dict[str, bytes]
) -> None:
    with prepared(tmp_path) as site:
        async with within(site) as corridor:
            roads = [await walked(corridor) for _ in range(2)]  # the first one is a cold one
    home = Path(gateway.__file__).parent
    passed = {size.name_of(Path(file), home.parent) for road in roads for file in road.files}
    assert {"gateway.pipeline.pipeline", "gateway.oauth.gate"} <= passed
    beside = {name for name in passed if not name.startswith((*HEARERS, PUTS_TOGETHER))}
    assert beside <= size.core(sources)


COUNTED = b'''
"""A docstring
of two lines."""

# why
import a.b  # a comment beside code
from a import (
    c,
)

if TYPE_CHECKING:
    from a import types

TEXT = """one
two"""
"""A docstring of an attribute."""


def inner() -> None:
    """What is true afterwards."""
    import late
'''


def test_lines_are_counted_where_a_token_stands_that_is_code() -> None:
    assert size.code_lines(COUNTED) == 1 + 3 + 2 + 2 + 2


def test_what_only_a_type_checker_imports_is_not_core() -> None:
    assert size.imported(COUNTED, ["a", "a.b", "a.c", "a.types", "late"]) == {
        "a",
        "a.b",
        "a.c",
        "late",
    }
    tree = {"a": b"import b", "b": b"def f():\n    import c", "c": b"", "d": b"import a"}
    assert size.core(tree, ["a"]) == {"a", "b", "c"}
