"""`douane users`, `clients` for people, `keys rotate`: rows, answers, exit statuses."""

import json

import pytest

from tests.cli.world import Site


def test_a_person_is_added_changed_and_removed(site: Site) -> None:
    (added,) = site.rows("users", "add", "emma", "--group", "admins", "--os-user", "em")
    assert added.pop("setup_url").endswith("/setup?link=secret-1")
    assert (added["user"], added["groups"], added["os_user"]) == ("emma", ["admins"], "em")
    assert site.rows("users", "list") == [added]
    assert "emma" in site.run("users", "list").stdout
    (changed,) = site.rows("users", "change", "emma", "--group", "users", "--no-os-user")
    assert (changed["groups"], changed["roles"], changed["os_user"]) == (["users"], ["user"], None)
    assert site.rows("users", "change", "emma", "--no-groups")[0]["groups"] == []
    assert site.rows("users", "disable", "emma")[0]["disabled"] is True
    assert site.rows("users", "enable", "emma")[0]["disabled"] is False
    assert "setup_url" in site.rows("users", "link", "emma")[0]
    assert site.rows("users", "remove", "emma")[0]["user"] == "emma"
    assert site.rows("users", "list") == []


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("users", "add", "Emma"), 2),
        (("users", "add"), 2),
        (("users", "change", "emma"), 1),
        (("users", "change", "emma", "--group", "a", "--no-groups"), 2),
        (("users", "change", "emma", "--os-user", "a", "--no-os-user"), 2),
        (("users", "disable", "emma"), 1),
        (("users", "sessions", "end"), 2),
        (("users", "sessions", "end", "s_1"), 1),
        (("users", "sessions", "end", "--user", "emma"), 1),
        (("users", "consents", "withdraw", "emma", "agent"), 1),
        (("users", "grants", "revoke", "g_1"), 1),
        (("users", "connections", "disconnect", "emma", "mail"), 1),
        (("keys", "rotate", "--kek", "--data"), 2),
        (("clients", "show", "agent"), 1),
    ],
)
def test_what_cannot_be_done_sets_the_exit_status(
    site: Site, arguments: tuple[str, ...], exit_code: int
) -> None:
    assert site.run(*arguments).exit_code == exit_code


@pytest.mark.parametrize("what", ["sessions", "consents", "grants", "connections"])
def test_what_people_have_open_is_listed(site: Site, what: str) -> None:
    site.run("users", "add", "emma")
    assert site.rows("users", what, "list") == []
    assert site.rows("users", what, "list", "--user", "emma") == []
    assert site.run("users", what, "list", "--user", "nobody").exit_code == 1


def test_sessions_of_a_user_are_ended_together(site: Site) -> None:
    site.run("users", "add", "emma")
    assert site.rows("users", "sessions", "end", "--user", "emma") == [{"ended": 0}]


def test_a_client_for_people_is_added_and_shown(site: Site) -> None:
    (added,) = site.rows(
        *("clients", "add", "app", "--grant", "authorization_code", "--grant", "refresh_token"),
        *("--redirect-uri", "https://app.test/cb", "--public"),
        *("--resource", "/mcp/mail", "--scope", "tools:call"),
    )
    assert "client_secret" not in added
    assert (added["auth_methods"], added["redirect_uris"]) == (["none"], ["https://app.test/cb"])
    (shown,) = site.rows("clients", "show", "app")
    assert added.items() <= shown.items()


def test_a_client_that_signs_brings_its_public_keys_in_a_file(site: Site) -> None:
    file = site.folder / "jwks.json"
    key = {
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    }
    arguments = (
        *("clients", "add", "job", "--auth-method", "private_key_jwt", "--jwks", str(file)),
        *("--resource", "/mcp/mail", "--scope", "tools:call"),
    )
    file.write_text("[]")
    assert site.run(*arguments).exit_code == 2
    file.write_text(json.dumps({"keys": [key | {"d": "cHJpdmF0ZQ"}]}))
    refused = site.run(*arguments)
    assert (refused.exit_code, "cHJpdmF0ZQ" in refused.output) == (2, False)
    file.write_text(json.dumps({"keys": [key]}))
    (added,) = site.rows(*arguments)
    assert (added["auth_methods"], "client_secret" in added) == (["private_key_jwt"], False)


@pytest.mark.parametrize(
    ("option", "use"), [((), "signing"), (("--data",), "data"), (("--kek",), "kek")]
)
def test_a_key_is_replaced(site: Site, option: tuple[str, ...], use: str) -> None:
    assert site.rows("keys", "rotate", *option)[0]["use"] == use
