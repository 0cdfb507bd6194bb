"""`douane runs`: the story as a table and a picture, and a person's word about a run."""

import asyncio
import itertools
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.admin import Admin
from gateway.config import Config
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.scripts import Script, ScriptId
from tests.admin.world import NOW, opened
from tests.cli.world import Site, wire
from tests.storage.memory_calls import MemoryScriptStore

PRIVATE = {"integrity": "untrusted", "confidentiality": "private"}
READ: dict[str, Any] = {
    "run": "r_new",
    "decision_id": "d_1",
    "server": "web",
    "target": "fetch_a_page_with_a_very_long_name_indeed",
    "effect": "read",
    "verdict": "allow",
    "label_after": PRIVATE,
}
REFUSED: dict[str, Any] = {
    "run": "r_new",
    "decision_id": "d_2",
    "parent": "d_1",
    "server": "mail",
    "target": "send\x1b[2J",
    "effect": "egress",
    "verdict": "deny",
    "code": "denied",
    "label_before": PRIVATE,
    "label_because": "unknown_run",
    "sources": [{"server": "web", "tool": "fetch", "record": "r7", "label": PRIVATE}],
    "reasons": [
        {"code": "denied", "message": ""},
        {"code": "private_to_outside", "message": ""},
    ],
    "destinations": [
        {
            "path": "$.to[0]",
            "proof": "typed",
            "integrity": "untrusted",
            "from": {
                "server": "web",
                "tool": "fetch",
                "record": "01a201ee25cd25bbb1950adf0000002c",
            },
        },
        {"path": "$.cc[0]", "proof": "none", "integrity": "untrusted"},
    ],
}


@pytest.fixture
def told(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site whose log has a story."""

    ids = (f"o{number}" for number in itertools.count())

    @asynccontextmanager
    async def open_admin(config: Config) -> AsyncIterator[Admin]:
        async with opened(config.data_dir, site.files) as (admin, store):
            for number, fields in enumerate((READ, REFUSED)):
                record = AuditRecord(
                    kind=RecordKind.OUTCOME, time=NOW + number, id=next(ids), fields=fields
                )
                await store.audit.append(record)
            yield admin

    monkeypatch.setattr(site, "open_admin", open_admin)
    wire(site, monkeypatch)
    return site


def test_a_story_is_a_table_of_at_most_eighty_columns(told: Site) -> None:
    shown = told.run("runs", "show", "r_new")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "saw web/fetch: untrusted private" in lines
    assert "This run has read what outsiders can write: web/fetch." in lines
    assert lines[-8:] == [
        "  SEQ  TIME     WHAT                    EFFECT  VERDICT      LABEL AFTER",
        "  1    08:00:00 web/fetch_a_page_with_~ read    allow        untrusted private",
        "x 2    08:00:01   mail/send\\e[2J        egress  deny         untrusted private*",
        "               because of private_to_outside",
        "               to $.to[0]: typed, untrusted, from web/fetch",
        "                  in record 01a201ee25cd25bbb1950adf0000002c",
        "               to $.cc[0]: unproven",
        "* it named a run that was not known, so it counted as untrusted",
    ]


def test_a_story_is_one_object_a_line_for_programs(told: Site) -> None:
    steps = told.rows("runs", "show", "r_new")
    assert [(step["seq"], step["depth"], step["verdict"]) for step in steps] == [
        (1, 0, "allow"),
        (2, 1, "deny"),
    ]


def test_a_story_is_drawn_into_a_file(told: Site, tmp_path: Path) -> None:
    drawn = tmp_path / "run.svg"
    assert told.run("runs", "show", "r_new", "--svg", str(drawn)).exit_code == 0
    tags = {element.tag.rpartition("}")[2] for element in ET.parse(drawn).iter()}
    assert {"svg", "line", "rect", "text"} <= tags
    assert "private_to_outside" in drawn.read_text()
    nowhere = told.run("runs", "show", "r_new", "--svg", str(tmp_path / "none" / "x.svg"))
    assert nowhere.exit_code == 2


def test_a_run_that_called_nothing_says_so(site: Site) -> None:
    assert "nothing was called" in site.run("runs", "show", "r_old").stdout


def test_a_person_vouches_for_the_label_that_they_see(site: Site) -> None:
    with site.running():
        (row,) = site.rows("runs", "relabel", "r_new", "--integrity", "trusted", "--note", "mine")
        assert row == {"run": "r_new", "integrity": "trusted", "confidentiality": "private"}
        (listed, _) = site.rows("runs", "list")
        assert (listed["integrity"], listed["confidentiality"]) == ("trusted", "private")
        word: dict[str, Any] = site.rows("audit", "query", "--where", "method = runs.relabel")[0]
        assert (word["kind"], word["label_after"]["integrity"]) == ("run", "trusted")
        assert {"code": "note", "message": "mine"} in word["reasons"]


def test_a_person_vouches_for_the_look_that_they_had(site: Site) -> None:
    command = ("runs", "relabel", "r_new", "--integrity", "trusted", "--note", "x", "--look")
    with site.running():
        assert "0.first" in site.run("runs", "show", "r_new").stdout
        late = site.run(*command, "0.earlier")
        assert (late.exit_code, "since you looked" in late.stderr) == (1, True)
        assert site.rows(*command, "0.first")[0]["integrity"] == "trusted"


@pytest.mark.parametrize(
    "arguments",
    [("--note", "x"), ("--integrity", "trusted"), ("--integrity", "fine", "--note", "x")],
    ids=["no label", "no note", "no such label"],
)
def test_a_word_that_says_too_little_is_wrong_use(site: Site, arguments: tuple[str, ...]) -> None:
    assert site.run("runs", "relabel", "r_new", *arguments).exit_code == 2


def test_a_run_is_ended_and_then_is_not_live(site: Site) -> None:
    with site.running():
        assert site.rows("runs", "end", "r_new", "--note", "done")[0]["ended"] is True
        assert [row["run"] for row in site.rows("runs", "list", "--live")] == ["r_old"]
        assert site.run("runs", "end", "r_new").exit_code == 1
        late = site.run("runs", "relabel", "r_new", "--integrity", "trusted", "--note", "x")
        assert (late.exit_code, "has ended" in late.stderr) == (1, True)


def test_programs_are_listed_and_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = MemoryScriptStore()
    program = Script(
        id=ScriptId("s_1"),
        principal="issuer|alice|host",
        sha256="ab" * 32,
        grants=None,
        most=None,
        parent="d_1",
        began=NOW,
        expires_at=NOW + 60,
        run="r_new",
    )

    @asynccontextmanager
    async def open_admin(config: Config) -> AsyncIterator[Admin]:
        async with opened(config.data_dir, site.files, scripts=scripts) as (admin, _):
            yield admin

    asyncio.run(scripts.begin(program))
    monkeypatch.setattr(site, "open_admin", open_admin)
    wire(site, monkeypatch)
    (row,) = site.rows("runs", "programs")
    assert (row["script"], row["run"], row["waits"]) == ("s_1", "r_new", False)
    (done,) = site.rows("runs", "revoke", "s_1", "--note", "enough")
    assert done == {"script": "s_1", "revoked": True}
    assert site.rows("runs", "programs") == []
    assert site.run("runs", "revoke", "s_1").exit_code == 1
