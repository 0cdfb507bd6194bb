"""A rule that names an argument which nothing approved has never holds, and is told."""

from pathlib import Path

import pytest

from gateway.policy.arguments import Takes, misnamed
from gateway.policy.bundle import laid_out, parsed
from gateway.policy.commands import check
from gateway.policy.missing import maybe_missing
from gateway.policy.opa import Opa
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Sources
from gateway.policy.targets import Known

PAY = Takes.of(
    "bank",
    "pay",
    {"inputSchema": {"properties": {"amount": {}, "to": {"properties": {"name": {}}}}}},
)
MAIL = Takes.of("mail", "send", {"inputSchema": {"allOf": [{"properties": {"recipients": {}}}]}})
OPEN = Takes.of("raw", "anything", {"inputSchema": {"type": "object"}})
ASKS = Takes.of("mail", "greeting", {"arguments": [{"name": "person"}]})
APPROVED = (PAY, MAIL, OPEN, ASKS)


def wrong(
    opa: Opa, body: str, *, approved: tuple[Takes, ...] = APPROVED, more: str = ""
) -> list[str]:
    text = (
        f'package douane\n\ndeny contains {{"code": "x", "message": "x"}} if {{\n{body}\n}}\n{more}'
    )
    with laid_out(Sources(files={"own.rego": text.encode()}), tests=False) as folder:
        return misnamed([parsed(opa, folder, "own.rego")], approved)


@pytest.mark.parametrize(
    "body",
    [
        "input.arguments.amonut > 100",
        'input.arguments["amonut"] > 100',
        "not input.arguments.amonut",
        "args := input.arguments\nargs.amonut > 100",
        'object.get(input.arguments, "amonut", 0) > 100',
        'object.get(input.arguments, ["amonut", "x"], 0) > 100',
        "some x in input.arguments.amonut\nx > 1",
        "every x in input.arguments.amonut { x > 1 }",
        "count([x | x := input.arguments.amonut[_]]) > 1",
        'input.target.name == "pay"\ninput.arguments.amonut > 100',
        'input.target.server in {"bank"}\ninput.arguments.amonut.x > 100',
    ],
)
def test_a_misspelled_argument_is_found_however_it_is_read(opa: Opa, body: str) -> None:
    (problem,) = wrong(opa, body)
    assert problem.startswith("own.rego:")
    assert problem.endswith("no approved definition has an argument amonut; is amount meant?")


def test_a_rule_that_is_another_name_of_the_arguments_is_seen_through(opa: Opa) -> None:
    found = wrong(opa, "given.amonut > 100", more="\ngiven := input.arguments\n")
    assert len(found) == 1


@pytest.mark.parametrize(
    "body",
    [
        "input.arguments.amount > 100",
        'input.arguments.to.name == "x"',
        "input.arguments.recipients",
        "input.arguments.person",
        "input.arguments.maxTokens > 3",
        'some name, x in input.arguments\nname == "amonut"\nx',
        'input.target.name == "anything"\ninput.arguments.amonut > 100',
        'input.target.name == "not_approved_yet"\ninput.arguments.amonut > 100',
        'input.target.kind == "server_request"\ninput.arguments.amonut > 100',
    ],
)
def test_what_there_is_or_what_nobody_can_say_is_no_mistake(opa: Opa, body: str) -> None:
    assert wrong(opa, body) == []


def test_an_argument_of_another_tool_than_the_rule_is_for_is_a_mistake(opa: Opa) -> None:
    (problem,) = wrong(opa, 'input.target.name == "pay"\ninput.arguments.recipients')
    assert "argument recipients" in problem


def test_before_anything_is_approved_nothing_is_said(opa: Opa) -> None:
    assert wrong(opa, "input.arguments.amonut", approved=()) == []


COPY = Takes.of(
    "files", "copy", {"inputSchema": {"properties": {"path": {}, "to": {}}, "required": ["path"]}}
)


def unheard(opa: Opa, body: str, *, approved: tuple[Takes, ...] = (COPY,)) -> list[str]:
    text = f'package douane\n\ndeny contains {{"code": "x", "message": "x"}} if {{\n{body}\n}}\n'
    with laid_out(Sources(files={"own.rego": text.encode()}), tests=False) as folder:
        return maybe_missing([parsed(opa, folder, "own.rego")], approved)


@pytest.mark.parametrize(
    "body",
    [
        'not startswith(input.arguments.to, "/srv/")',
        'not input.arguments.to in {"/srv/a"}',
        'not lower(input.arguments.to) == "/srv"',
        "not input.arguments.to > 3",
        "not {1: true}[input.arguments.to]",
        'args := input.arguments\nnot startswith(args.to, "/srv/")',
        'input.target.name == "copy"\nnot startswith(input.arguments.to, "/srv/")',
    ],
)
def test_a_not_that_is_never_true_of_a_missing_argument_is_told(opa: Opa, body: str) -> None:
    (notice,) = unheard(opa, body)
    assert notice.startswith("own.rego:")
    assert "may have no argument to" in notice
    assert 'object.get(input.arguments, "to", "")' in notice
    # Where nothing is approved nobody can say that it is always there.
    assert unheard(opa, body, approved=()) == [notice]


@pytest.mark.parametrize(
    "body",
    [
        'not startswith(input.arguments.path, "/srv/")',
        'not input.arguments.to == "/srv"',
        "not input.arguments.to",
        'not startswith(object.get(input.arguments, "to", ""), "/srv/")',
        'input.arguments.to\nnot startswith(input.arguments.to, "/srv/")',
        'is_string(input.arguments.to)\nnot startswith(input.arguments.to, "/srv/")',
        'startswith(input.arguments.to, "/srv/")',
    ],
)
def test_a_not_that_means_what_it_says_is_no_matter(opa: Opa, body: str) -> None:
    assert unheard(opa, body) == []


async def test_a_check_says_what_may_be_missing(folder: Path) -> None:
    (folder / "own.rego").write_text(
        'package own\n\nx if not startswith(input.arguments.to, "/srv/")\n'
    )
    found = await check(PolicySettings(path=str(folder)), {}, Known(approved=(COPY,)))
    assert found.problems == ()
    assert [one for one in found.notices if one.startswith("own.rego:3: a call may have no")]


async def test_a_check_says_so(folder: Path) -> None:
    (folder / "own.rego").write_text("package own\n\nx if input.arguments.amonut > 1\n")
    settings = PolicySettings(path=str(folder))
    assert (await check(settings, {}, Known(approved=APPROVED))).problems == (
        "own.rego:3: no approved definition has an argument amonut; is amount meant?",
    )
    assert (await check(settings, {})).problems == ()
