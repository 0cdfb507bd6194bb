"""What targets are called in front of all servers: short, told apart, and found again from the name."""

import re
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.builtin.names import LONGEST, public_name, public_uri, resource_of, target_of
from gateway.domain.tools import Kind, Target, UpstreamId

SERVER = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,31}", fullmatch=True)
TOOL = st.from_regex(r"[A-Za-z0-9_.-]{1,128}", fullmatch=True)
CROWDED = st.builds(
    "".join, st.lists(st.sampled_from(["a", "_", "__", "-", "b"]), min_size=1, max_size=6)
)
"""Names that are likely to meet."""


def tool(server: str, name: str) -> Target:
    return Target(server=UpstreamId(server), kind=Kind.TOOL, name=name)


@given(SERVER, TOOL)
@example("a" * 32, "b" * 128)
def test_a_name_is_short_and_plain(server: str, name: str) -> None:
    assert re.fullmatch(rf"[A-Za-z0-9_.-]{{1,{LONGEST}}}", public_name(tool(server, name)))


@given(SERVER, TOOL)
def test_a_target_is_found_by_its_name(server: str, name: str) -> None:
    target = tool(server, name)
    others = [tool("other", name), Target(server=target.server, kind=Kind.PROMPT, name=name)]
    assert target_of(public_name(target), Kind.TOOL, {server, "other"}, [*others, target]) == target


@given(st.lists(st.builds(tool, CROWDED.map(lambda s: "a" + s), CROWDED), unique=True, max_size=8))
@example([tool("a", "_b"), tool("a_", "b")])
@example([tool("a", "b__c"), tool("a__b", "c")])
def test_no_two_targets_share_a_name(targets: list[Target]) -> None:
    for one, other in combinations(targets, 2):
        assert public_name(one) != public_name(other)


@pytest.mark.parametrize(
    ("server", "name", "public"),
    [
        ("mail", "send_email", "mail__send_email"),
        ("mail", "_x", "mail___x"),
        ("a_", "x", "a___x--khu7o4chx4y72lbm"),
        ("a", "b" * 61, "a__" + "b" * 61),
        ("a", "b" * 62, "a__" + "b" * 43 + "--womuy43sowdxbozm"),
    ],
)
def test_names_stay_what_they_are(server: str, name: str, public: str) -> None:
    assert public_name(tool(server, name)) == public


def test_a_tool_that_is_called_like_a_shortened_name_does_not_take_it() -> None:
    long = tool("mail", "x" * 100)
    imitation = tool("mail", public_name(long).removeprefix("mail__"))
    assert public_name(imitation) != public_name(long)
    assert target_of(public_name(long), Kind.TOOL, {"mail"}, [imitation, long]) == long


@pytest.mark.parametrize("name", ["send", "mail__", "__send", "other__send", "mail__" + "x" * 59])
def test_what_is_no_name_of_ours_names_nothing(name: str) -> None:
    assert target_of(name, Kind.TOOL, {"mail"}, [tool("mail", "send")]) is None


def test_a_plain_name_says_its_server_though_there_is_no_such_tool() -> None:
    assert target_of("mail__nope", Kind.TOOL, {"mail"}, []) == tool("mail", "nope")


def test_a_digest_that_nobody_has_names_nothing() -> None:
    name = public_name(tool("mail", "x" * 100))
    assert target_of(name, Kind.TOOL, {"mail"}, [tool("mail", "y" * 100)]) is None


@given(SERVER, st.text(min_size=1))
def test_a_resource_is_found_by_its_uri(server: str, uri: str) -> None:
    found = resource_of(public_uri(UpstreamId(server), uri), {server})
    assert found == Target(server=UpstreamId(server), kind=Kind.RESOURCE, name=uri)


@pytest.mark.parametrize(
    "uri", ["file:///x", "douane://mail", "douane://mail/", "douane://other/x", "DOUANE://mail/x"]
)
def test_what_is_no_uri_of_ours_names_nothing(uri: str) -> None:
    assert resource_of(uri, {"mail"}) is None
