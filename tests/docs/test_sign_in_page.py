"""docs/sign-in.md: its configurations are accepted, and its names and numbers are the code's."""

from pathlib import Path

import pytest
import yaml

from gateway.config import parse
from gateway.config.auth import Auth
from gateway.oauth.assertions import LONGEST_LIFE_S
from gateway.oauth.custodian import PUBLISHED_FIRST_S
from gateway.oauth.device import LIFETIME_S, USER_CODE_LENGTH
from gateway.oauth.documents import LARGEST_DOCUMENT_BYTES
from gateway.oauth.foreign.gate import LONGEST_LIFETIME_S
from gateway.oauth.foreign.kept import FRESH_S, LONGEST_OUTAGE_S
from gateway.oauth.foreign.profiles import PROFILES
from gateway.oauth.protocol import Lifetimes
from gateway.oauth.registration import RegistrationRules
from gateway.oauth.resources import SCOPES
from gateway.signin import links, passwords
from gateway.wire.elicitation import URL_REQUIRED
from tests.docs.pages import ROOT, blocks, prose, rows, spans

PAGE = ROOT / "docs" / "sign-in.md"
WORDS = " ".join(prose(PAGE).split())
URL = "https://mcp.example.com"
EXAMPLES = blocks(PAGE, "yaml")


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_configuration_is_accepted(text: str, tmp_path: Path) -> None:
    whole = f"version: 1\npublic_url: {URL}\n{text}"
    assert parse(whole, file=tmp_path / "douane.yaml").public_url == URL


def test_every_provider_is_told_where_to_send_people_back() -> None:
    names = [
        name
        for text in EXAMPLES
        for name in yaml.safe_load(text).get("auth", {}).get("providers", ())
    ]
    assert {"company", "entra", "okta", "keycloak"} == set(names)
    for name in names:
        assert f"`{URL}/sign-in/{name}/callback`" in WORDS


def test_every_mode_has_its_row() -> None:
    told = [spans(row["`auth.mode`"])[0] for row in rows(PAGE, "`auth.mode`")]
    assert told == list(Auth.model_json_schema()["properties"]["mode"]["enum"])


def test_every_profile_has_its_row() -> None:
    told = {row["profile"].strip("`"): row for row in rows(PAGE, "profile")}
    assert set(told) == set(PROFILES)
    for name, profile in PROFILES.items():
        row = told[name]
        types = {kind.lower() for kind in spans(row["`typ`"])}
        assert types | ({""} if "none" in row["`typ`"] else set()) == set(profile.types)
        assert spans(row["scopes"]) == [profile.scope]
        assert tuple(spans(row["client"])) == profile.client
        assert spans(row["token's id"]) == [profile.id_claim]


def test_every_scope_has_its_row() -> None:
    told = [scope for row in rows(PAGE, "scope") for scope in spans(row["scope"])]
    assert sorted(told) == sorted(SCOPES)


def test_the_numbers_are_the_codes() -> None:
    for told in (
        f"password ({passwords.SHORTEST} to {passwords.LONGEST} characters)",
        f"Argon2id ({passwords._MEMORY_KIB // 1024} MiB, {passwords._ITERATIONS} iterations)",
        f"good for {Lifetimes().code_s:g} seconds and once",
        f"{RegistrationRules().per_source} registrations an hour",
        f"a client's document {LARGEST_DOCUMENT_BYTES // 1024} KiB",
        f"error {URL_REQUIRED}",
        f"an end within {LONGEST_LIFE_S // 60} minutes",
        f"be good for {LONGEST_LIFETIME_S // 3600} hours at most",
    ):
        assert told in WORDS
    assert (links.LIFETIME_S, LONGEST_OUTAGE_S) == (24 * 3600, 24 * 3600)
    assert (FRESH_S, LIFETIME_S, USER_CODE_LENGTH, PUBLISHED_FIRST_S) == (600, 600, 8, 3600)
    for told in (
        "good for a day",
        "outage of up to a day",
        "kept for ten minutes",
        "code of eight letters",
    ):
        assert told in WORDS


def test_the_lifetimes_are_the_defaults() -> None:
    told = {
        name: row["good for"]
        for row in rows(PAGE, "what")
        for name in [row["what"].partition(":")[0]]
    }
    auth = Auth()
    assert told["access token"] == f"`auth.token_lifetime`, {auth.token_lifetime / 60:g} minutes"
    assert (
        told["refresh token"]
        == f"`auth.refresh_lifetime`, {auth.refresh_lifetime / 86400:g} days unused"
    )
    assert told["grant"] == f"`auth.grant_lifetime`, {auth.grant_lifetime / 86400:g} days"
    assert (
        told["browser session"]
        == f"`auth.session_lifetime`, {auth.session_lifetime / 3600:g} hours"
    )
    assert f"`auth.refresh_grace` ({auth.refresh_grace / 60:g} minutes)" in WORDS
    assert f"`auth.refresh_lost` ({auth.refresh_lost / 3600:g} hours)" in WORDS


def test_what_a_record_says_is_said_by_the_code() -> None:
    code = "".join(
        path.read_text()
        for room in ("signin", "oauth/foreign")
        for path in (ROOT / "gateway" / room).glob("*.py")
    )
    seen = [text for row in rows(PAGE, "what you see") for text in spans(row["what you see"])]
    assert len(seen) >= 7
    assert [text for text in seen if text.removeprefix("ID token: ") not in code] == []
