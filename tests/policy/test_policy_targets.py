"""A rule, or a line of `access`, that names a server or a tool which is not there is told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.quotas import Count, Per, Quota
from gateway.policy.bundle import laid_out, parsed
from gateway.policy.commands import check
from gateway.policy.opa import Opa
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Sources
from gateway.policy.targets import Known, absent, absent_in_access, absent_in_quotas

KNOWN = Known(
    servers=frozenset({"bank", "mail", "silent"}),
    seen=(("bank", "pay"), ("mail", "send"), ("mail", "note://{name}"), ("", "run_code")),
)


def wrong(opa: Opa, body: str) -> list[str]:
    text = f"package own\n\nx if {{\n{body}\n}}\n"
    with laid_out(Sources(files={"own.rego": text.encode()}), tests=False) as folder:
        return absent([parsed(opa, folder, "own.rego")], KNOWN)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('input.target.server == "bnak"', "no server is called bnak; is bank meant?"),
        ('"bnak" == input.target.server', "no server is called bnak; is bank meant?"),
        ('input.target.server in {"bank", "x"}', "no server is called x"),
        (
            'input.target.server == "bank"\ninput.target.name == "pya"',
            "bank has shown nothing called pya; is pay meant?",
        ),
        (
            'input.target.name == "send"\ninput.target.server == "bank"',
            "bank has shown nothing called send",
        ),
        (
            'input.target.server in ["bank", "mail"]\ninput.target.name in {"pay", "sned"}',
            "bank or mail has shown nothing called sned; is send meant?",
        ),
        (
            'input.target.server == ""\ninput.target.name == "run_cod"',
            "the gateway has shown nothing called run_cod; is run_code meant?",
        ),
    ],
)
def test_a_name_that_is_not_there_is_found(opa: Opa, body: str, problem: str) -> None:
    (found,) = wrong(opa, body)
    assert found.startswith("own.rego:")
    assert found.endswith(f": {problem}")


@pytest.mark.parametrize(
    "body",
    [
        'input.target.server == "bank"\ninput.target.name == "pay"',
        'input.target.server == "silent"\ninput.target.name == "anything"',
        'input.target.name == "anything"',
        'input.target.server == ""\ninput.target.name == "run_code"',
        'not input.target.server == "bnak"',
        'input.target.server != "bnak"',
        'startswith(input.target.name, "pya")',
    ],
)
def test_what_is_there_or_may_come_is_no_mistake(opa: Opa, body: str) -> None:
    assert wrong(opa, body) == []


def test_once_every_server_has_shown_its_tools_a_name_alone_is_compared(opa: Opa) -> None:
    text = b'package own\n\nx if input.target.name == "pya"\n'
    all_seen = Known(servers=frozenset({"bank"}), seen=(("bank", "pay"), ("", "run_code")))
    with laid_out(Sources(files={"own.rego": text}), tests=False) as folder:
        found = absent([parsed(opa, folder, "own.rego")], all_seen)
    assert found == ["own.rego:3: no server has shown anything called pya; is pay meant?"]


@pytest.mark.parametrize(
    ("access", "problems"),
    [
        ({"only": {"bnak": ["finance"]}}, ["only: no server is called bnak; is bank meant?"]),
        ({"deny": [{"server": "bnak"}]}, ["deny[0]: no server is called bnak; is bank meant?"]),
        (
            {"deny": [{}, {"server": "bank", "tool": "pya"}]},
            ["deny[1]: bank has shown nothing called pya; is pay meant?"],
        ),
        ({"deny": [{"server": "*", "tool": "pay"}], "only": {"bank": ["finance"]}}, []),
        ({"deny": [{"server": "silent", "tool": "pay"}, {"tool": "*"}, 3], "only": []}, []),
        (None, []),
    ],
)
def test_a_line_of_access_that_closes_nothing_is_found(access: Any, problems: list[str]) -> None:
    assert absent_in_access(access, KNOWN) == [f"data.douane.access.{one}" for one in problems]


async def test_a_check_says_so(folder: Path) -> None:
    (folder / "own.rego").write_text('package own\n\nx if input.target.server == "bnak"\n')
    (folder / "data.yaml").write_text("douane: {access: {only: {mial: [x]}}}\n")
    settings = PolicySettings(path=str(folder))
    assert (await check(settings, {}, KNOWN)).problems == (
        "own.rego:3: no server is called bnak; is bank meant?",
        "data.douane.access.only: no server is called mial; is mail meant?",
    )


def counted(servers: str = "", tools: str = "") -> Quota:
    of, which = (frozenset(text.split()) for text in (servers, tools))
    return Quota(name="mails", count=Count.CALLS, most=1, per=Per.DAY, servers=of, tools=which)


@pytest.mark.parametrize(
    ("quota", "ask", "problems"),
    [
        (counted(servers="mail", tools="send"), ["mails", "*"], []),
        (counted(servers="silent", tools="any"), None, []),
        (counted(tools="pya"), [], []),
        (
            counted(servers="mial"),
            [],
            ["limits.quotas: mails: no server is called mial; is mail meant?"],
        ),
        (
            counted(servers="mail", tools="sned"),
            [],
            ["limits.quotas: mails: mail has shown nothing called sned; is send meant?"],
        ),
        (
            counted(),
            ["mials", 7],
            ["data.douane.quotas.ask: no quota is called mials; is mails meant?"],
        ),
    ],
)
def test_quotas_about_what_is_not_there_are_told(
    quota: Quota, ask: Any, problems: list[str]
) -> None:
    assert absent_in_quotas({"ask": ask}, replace(KNOWN, quotas=(quota,))) == problems


async def test_a_check_tells_of_quotas_too(folder: Path) -> None:
    (folder / "data.yaml").write_text("douane: {quotas: {ask: [mials]}}\n")
    told = await check(PolicySettings(path=str(folder)), {}, Known(quotas=(counted(),)))
    assert told.problems == ("data.douane.quotas.ask: no quota is called mials; is mails meant?",)
