"""The record at the desk: who may search it, what an address says, and a proof to take away."""

import json
import re
import shlex
import subprocess
import sys
from typing import Any

import click
import pytest

from gateway.cli import main
from gateway.domain.identity import ClientKind
from tests.servers.process import ROOT
from tests.signin.house import HTTP
from tests.storage.logged import FROM_CRM, TO_OTHERS, append, made, refused, write
from tests.web.desk_site import desk_house

RECORD = f"{HTTP}/desk/record"
SENT: Any = {"sources": FROM_CRM, "destinations": TO_OTHERS}
ROOMS = (RECORD, f"{RECORD}/ask", f"{RECORD}/exports")


@pytest.fixture
async def house(tmp_path):
    events = [
        *made("1", principal="user:emma", server="mail", target="send", run="r_1", **SENT),
        *refused("2", principal="user:<b>noah", server="web", target="fetch"),
    ]
    await write(tmp_path, events)
    async with desk_house(tmp_path) as house:
        yield house


def reads(house):
    return [method for _, method, code in house.methods if code == "read"]


@pytest.mark.parametrize("path", ROOMS)
async def test_only_who_audits_reads_the_record(house, path):
    for name, status in (("otto", 200), ("root", 200), ("ada", 403)):
        browser = await house.signed_in(name)
        page = await browser.get(path)
        assert page.status == status
        assert ("/desk/record" in page.links) is (status == 200)
    assert ("user:ada", "deny") in {
        (row["principal"], row["verdict"]) for row in house._written() if "principal" in row
    }


async def test_a_search_is_an_address_and_one_read_on_record(house):
    browser = await house.signed_in("otto")
    page = await browser.get(f"{RECORD}?server=mail&since=7d")
    assert "mail/send" in page.ids["records"]
    assert "web/fetch" not in page.ids["records"]
    assert "server = mail" in page.ids["conditions"]
    assert reads(house) == ["audit.query"]


async def test_a_search_in_words_is_kept_where_it_cannot_be_read(house):
    browser = await house.signed_in("otto")
    page = await browser.get(f"{RECORD}?where=nonsense+is+%3D")
    assert page.status == 200
    assert page.form("search").fields["where"] == "nonsense is ="
    assert page.ids["problem"]
    assert reads(house) == []


async def test_what_stands_in_a_record_is_a_text(house):
    browser = await house.signed_in("otto")
    page = await browser.get(f"{RECORD}?since=7d")
    assert "user:<b>noah" in page.text
    assert "b" not in page.elements


async def test_older_records_come_behind_newer_ones_and_none_twice(tmp_path):
    await write(
        tmp_path, [each for n in range(120) for each in refused(str(n), principal="user:emma")]
    )
    async with desk_house(tmp_path) as house:
        browser = await house.signed_in("otto")
        page = await browser.get(f"{RECORD}?principal=user:emma&since=7d")
        met = []
        while True:
            met += [link for link in page.links if link.startswith("/desk/record/r")]
            if "next" not in page.links:
                break
            page = await browser.follow(page, "next")
        assert len(met) == len(set(met)) == 120


def record_of(house, **wanted):
    """Return the first record that says so."""
    return next(
        row
        for row in house._written()
        if all(row.get(name) == told for name, told in wanted.items())
    )


async def test_a_record_says_why_and_what_belongs_to_it(house):
    row = record_of(house, kind="outcome", target="send")
    browser = await house.signed_in("otto")
    page = await browser.get(f"{RECORD}/{row['id']}")
    assert page.status == 200
    assert "mail/send" in page.text
    assert "A call was let out" in page.ids["same"] or "A call was let out" in page.text
    assert set(reads(house)) == {"audit.show", "audit.explain"}


async def test_a_proof_is_taken_away_and_checked_without_us(house, tmp_path):
    row = record_of(house, kind="outcome", target="send")
    browser = await house.signed_in("otto")
    await house.store.writer.sign()
    page = await browser.get(f"{RECORD}/{row['id']}/proof")
    assert page.headers["content-disposition"] == 'attachment; filename="record.json"'
    assert json.loads(page.body)["id"] == row["id"]
    kept = tmp_path / "taken.json"
    kept.write_text(page.body)
    checker = ROOT / "docs" / "verify_export.py"
    key = str(house.store.verifier)
    words = [sys.executable, str(checker), str(kept), "--proof", "--key", key]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


async def test_a_record_that_is_not_there_is_said_to_be_none(house):
    browser = await house.signed_in("otto")
    assert (await browser.get(f"{RECORD}/nothing")).status == 404


async def test_every_ready_made_question_is_asked_by_its_address(house):
    browser = await house.signed_in("otto")
    page = await browser.get(f"{RECORD}/ask")
    for name in ("sent-outside", "denied-by-rule", "where-went", "timeline"):
        assert any(f"question={name}" in link for link in page.links)
    page = await browser.get(f"{RECORD}/ask?question=sent-outside&source=crm&since=7d")
    assert "mail" in page.ids["rows"]
    page = await browser.get(f"{RECORD}/ask?question=sent-outside")
    assert page.ids["problem"] == "sent-outside needs source"


@pytest.mark.parametrize(
    "question",
    [
        "denied",
        "denied-by-rule",
        "top",
        "undeclared",
        "flows&source=crm",
        "timeline&principal=user:emma",
        "who-called&server=mail&tool=send",
    ],
)
async def test_an_answer_has_its_table(house, question):
    browser = await house.signed_in("otto")
    page = await browser.get(f"{RECORD}/ask?question={question}&since=7d")
    assert page.status == 200
    assert "answer" in page.ids
    assert "problem" not in page.ids


async def test_a_value_that_is_looked_for_stands_in_no_address_and_no_record(house):
    browser = await house.signed_in("otto")
    page = await browser.get(f"{RECORD}/ask?question=where-went")
    form = page.form("ask")
    assert form.method == "post"
    page = await browser.submit(form, page, content="a secret value")
    assert page.url == f"{RECORD}/ask"
    assert "answer" in page.ids
    assert "a secret value" not in json.dumps(house._written())


async def test_a_search_is_completed_without_a_script(house):
    _, page = await house.sits_down("otto", "/desk/record?where=verdict+%3D+deny&since=365d")
    options = re.findall(r'<option value="([^"]*)"', page.body)
    assert "verdict = deny and server = " in options
    assert all(one.startswith("verdict = deny and ") for one in options)


async def test_the_rows_of_a_question_are_drawn_over_time(house):
    for number in range(4):
        browser = await house.signed_in("otto")
        await browser.get(f"{RECORD}/none-{number}")
    _, page = await house.sits_down(
        "otto", "/desk/record/ask?question=timeline&principal=user:otto"
    )
    assert "svg" in page.elements
    assert page.ids["chart"].split(" ")[1:4] == ["records", "of", "this"]


async def test_of_what_was_refused_a_few_columns_are_shown_and_the_rest_where_asked_for(house):
    browser, page = await house.sits_down("otto", "/desk/record/ask?question=denied&since=365d")
    heads = re.findall(r'<th scope="col">([^<]*)', page.body)
    assert heads == ["When", "Who", "What", "Server", "Verdict", "Why", "Record"]
    assert "private data would leave" in page.ids["rows"]
    page = await browser.follow(page, "wide")
    wide = re.findall(r'<th scope="col">([^<]*)', page.body)
    assert {"decision id", "client", "kind"} <= set(wide)
    assert "since=365d" in page.url


async def test_clients_are_called_by_their_names_before_their_ids(house):
    id_ = "39f7b84d19530f4bf5e9d27895b89c52"
    house.client(id=id_, name="nightly", kind=ClientKind.REGISTERED, grants=("client_credentials",))
    await append(house.store, refused("9", principal=id_, client=id_), begin=90)
    browser = await house.signed_in("otto")
    for path in (f"?principal={id_}&since=365d", "/ask?question=denied&since=365d"):
        page = await browser.get(RECORD + path)
        assert "nightly" in page.ids["records" if "ask" not in path else "rows"]
        assert id_ not in page.ids.get("conditions", "")
    page = await browser.get(f"{RECORD}/r90")
    assert page.text.index("nightly") < page.text.index(id_)
    page = await browser.get(f"{RECORD}/ask?question=top&since=365d")
    assert ("nightly" in page.ids["rows"], id_ in page.ids["rows"]) == (True, False)


@pytest.mark.parametrize(
    ("asked", "unknown"),
    [
        ("who-called&server=mial&tool=send", "there is no server mial"),
        ("flows&source=cmr&server=mial", "there is no server cmr; there is no server mial"),
        ("who-called&server=mail&tool=nothing", None),
        ("timeline&principal=user:nobody", None),
    ],
)
async def test_nothing_about_a_server_that_is_none_says_so(house, asked, unknown):
    browser = await house.signed_in("otto")
    page = await browser.get(f"{RECORD}/ask?question={asked}")
    assert (page.ids.get("problem"), "none" in page.ids) == (unknown, True)


@pytest.mark.parametrize(
    ("path", "command"),
    [
        (
            "?server=mail&verdict=deny&since=7d",
            "douane audit query --server mail --verdict deny --since 7d",
        ),
        (
            "?where=reasons.code+%3D+%22rule_a%22",
            "douane audit query --where 'reasons.code = \"rule_a\"'",
        ),
        ("/ask?question=denied&since=24h", "douane audit ask denied --since 24h"),
        ("/ask?question=denied-by-rule&since=24h", "douane audit ask denied --by-rule --since 24h"),
        (
            "/ask?question=who-called&server=mail&tool=send&since=7d",
            "douane audit ask who-called mail send --since 7d",
        ),
        (
            "/ask?question=flows&source=crm&server=mail",
            "douane audit ask flows --from crm --to mail",
        ),
        ("/ask?question=timeline&principal=user:emma", "douane audit ask timeline user:emma"),
        ("/ask?question=top&subject=tool", "douane audit ask top --by tool"),
    ],
)
async def test_the_same_at_the_command_line_asks_the_same(house, path, command):
    browser = await house.signed_in("otto")
    page = await browser.get(RECORD + path)
    assert page.ids["shell"] == command
    words = shlex.split(command)[1:]
    found: click.Command = main
    rest = list(words)
    while isinstance(found, click.Group):
        found = found.commands[rest.pop(0)]
    found.make_parser(click.Context(found)).parse_args(rest)
