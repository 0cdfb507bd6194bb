"""Whether a URI is an expansion of a template, and of what."""

import pytest

from gateway.flow import templates
from gateway.flow.templates import filled_in, names_in


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("contacts://by/{name}", "contacts://by/evil%40mallory.example", ("evil@mallory.example",)),
        ("greeting://{name}", "greeting://bob", ("bob",)),
        ("https://docs.example/{path}", "https://docs.example/a", ("a",)),
        ("https://docs.example/{+path}", "https://docs.example/a/b?c", ("a/b?c",)),
        ("file:///{+path}", "file:///a/b", ("a/b",)),
        ("search://x{?q,r}", "search://x?q=a&r=b", ("?q=a&r=b",)),
        ("static://page", "static://page", ()),
    ],
)
def test_what_was_put_into_a_template_is_found(template, uri, values):
    assert filled_in(template, uri) == values


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("https://docs.example{path}", "https://docs.example@evil.example"),
        ("https://docs.example{+path}", "https://docs.example.evil.example/"),
        ("https://{host}/x", "https://evil.example/x"),
        ("https://docs.{tenant}.example/x", "https://docs.evil.example/x"),
        ("file://{path}", "file://evil.example"),
        ("{+uri}", "https://evil.example/"),
        ("{scheme}://docs.example/", "https://docs.example/"),
        ("mailto:{who}", "mailto:x@evil.example"),
    ],
)
def test_what_may_say_which_host_is_meant_is_no_expansion(template, uri):
    assert filled_in(template, uri) is None


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("contacts://by/{name}", "contacts://by/a/b"),
        ("contacts://by/{name}", "contacts://by/a?b"),
        ("contacts://by/{name}", "contacts://to/a"),
        ("contacts://by/{name}", "xcontacts://by/a"),
        ("contacts://by/{name}.txt", "contacts://by/a"),
        ("contacts://by/{name}", "contacts://by/" + "a" * 9000),
    ],
)
def test_what_is_written_otherwise_is_none(template, uri):
    assert filled_in(template, uri) is None


def test_what_may_take_long_to_compare_is_no_expansion():
    """Each character of a URI may be each of a literal that repeats one, and of each expression."""
    assert filled_in("x:y" + "{+a}" * 16, "x:yz") == ("z",)
    assert filled_in("x:y" + "{+a}" * 17, "x:yz") is None
    assert filled_in("x:y{a}" + "x" * 1_900, "x:yz" + "x" * 1_900) is None
    assert filled_in("x:y{a}" + "x" * 1_900, "x:yz") is None
    assert filled_in("repo://{a}/{b}/{+path}", "repo://a/b/" + "c/" * 4_000) == (
        "a",
        "b",
        "c/" * 4_000,
    )


def test_what_begins_otherwise_is_not_compared(monkeypatch):
    monkeypatch.setattr(templates, "_compiled", pytest.fail)
    assert filled_in("contacts://by/{name}", "contacts://to/a") is None


def test_the_names_of_what_can_be_put_in():
    assert list(names_in("a://{x}/{+y*}{?z:3,w}")) == ["x", "y", "z", "w"]
