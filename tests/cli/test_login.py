"""`douane login`: a browser says who it is, its word is checked, and later commands carry it."""

import json
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from gateway.cli import loopback, sign_in, tokens
from gateway.cli.failure import Failed
from tests.admin.world import principal
from tests.cli.authority import Authority, Browser, authority, challenge_of, fetch, granted
from tests.cli.world import Site


@pytest.fixture
def gateway(site: Site) -> Iterator[Authority]:
    with authority() as made:
        text = site.config_file.read_text().replace("http://127.0.0.1:8080", made.issuer)
        site.config_file.write_text(text)
        yield made


def kept(site: Site) -> Path:
    (found,) = (site.folder / "home" / "douane" / "tokens").glob("*.json")
    return found


def signed_in(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, str | None]
) -> tuple[Result, Browser]:
    browser = Browser(gateway.issuer, *answers)
    monkeypatch.setattr("webbrowser.open", browser.open)
    monkeypatch.setenv("DISPLAY", ":0")
    result = site.run("login")
    browser.close()
    return result, browser


def test_a_person_signs_in_with_their_browser(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.tokens = [granted()]
    result, browser = signed_in(site, gateway, monkeypatch)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        0,
        f"signed in at {gateway.issuer}; `douane logout` ends it",
    )
    asked = dict(browser.request)
    assert f"sign in here: {gateway.issuer}/oauth/authorize?" in result.stdout
    assert asked.pop("redirect_uri").startswith("http://127.0.0.1:")
    assert len(asked.pop("state")) == 43
    (form,) = gateway.forms("/oauth/token")
    assert asked.pop("code_challenge") == challenge_of(form["code_verifier"])
    assert asked == {
        "response_type": "code",
        "client_id": "douane-cli",
        "scope": "admin",
        "resource": f"{gateway.issuer}/api/v1",
        "code_challenge_method": "S256",
    }
    assert (form["grant_type"], form["code"], form["client_id"], form["resource"]) == (
        "authorization_code",
        "c0de",
        "douane-cli",
        f"{gateway.issuer}/api/v1",
    )
    assert form["redirect_uri"] == browser.request["redirect_uri"]


def test_the_page_at_the_end_holds_nothing_and_loads_nothing(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.tokens = [granted()]
    _, browser = signed_in(site, gateway, monkeypatch)
    ((status, page, headers),) = browser.pages
    assert (status, "You are signed in" in page, "c0de" in page) == (200, True, False)
    assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert (headers["Referrer-Policy"], headers["Cache-Control"]) == ("no-referrer", "no-store")


def test_the_sign_in_is_kept_for_this_user_alone_and_never_printed(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.tokens = [granted()]
    result, _ = signed_in(site, gateway, monkeypatch)
    file = kept(site)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    content = json.loads(file.read_text())
    assert content["expires_at"] == pytest.approx(time.time() + 600, abs=60)
    assert {name: content[name] for name in ("issuer", "access_token", "refresh_token")} == {
        "issuer": gateway.issuer,
        "access_token": "access-1",
        "refresh_token": "refresh-1",
    }
    assert not {"access-1", "refresh-1", "c0de"} & set(result.output.split())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"iss": None}, "the answer is not"),
        ({"iss": "https://evil.example"}, "the answer is not"),
        (
            {"iss": "https://evil.example", "code": None, "error": "access_denied"},
            "the answer is not",
        ),
        ({"code": None, "error": "access_denied"}, "not signed in: access_denied"),
        ({"error": "\x1b[2J", "code": None}, "not signed in: an error"),
        ({"code": None}, "holds no code"),
        ({"code": ""}, "holds no code"),
    ],
)
def test_an_answer_that_is_not_the_gateways_yes_signs_nobody_in(
    site: Site,
    gateway: Authority,
    monkeypatch: pytest.MonkeyPatch,
    answer: dict[str, str | None],
    told: str,
) -> None:
    result, _ = signed_in(site, gateway, monkeypatch, answer)
    assert (result.exit_code, told in result.stderr) == (1, True)
    assert gateway.forms("/oauth/token") == []
    assert not (site.folder / "home").exists()


def test_an_answer_with_another_state_is_passed_over_and_the_right_one_is_still_taken(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.tokens = [granted()]
    forged: dict[str, str | None] = {"state": "x" * 43, "code": "evil"}
    result, browser = signed_in(site, gateway, monkeypatch, forged, {"state": None}, {})
    assert result.exit_code == 0
    assert [status for status, _, _ in browser.pages] == [400, 400, 200]
    assert [form["code"] for form in gateway.forms("/oauth/token")] == ["c0de"]


def test_the_way_back_takes_one_answer_at_its_own_address_only() -> None:
    issuer = "https://gate.example"
    with loopback.way_back(issuer, "s") as back:
        base = back.redirect_uri.removesuffix("/callback")
        good = f"?code=c&state=s&iss={issuer}"
        assert fetch(f"{base}/{good}")[0] == 404
        assert fetch(f"{base}/callback{good}&code=d")[0] == 404
        assert fetch(f"{base}/callback{good}", Host="rebound.example")[0] == 404
        assert fetch(f"{base}/callback{good}")[0] == 200
        assert fetch(f"{base}/callback{good}")[0] == 400
        assert back.code(patience_s=0) == "c"
        with pytest.raises(Failed, match="in time"):
            back.code(patience_s=0)


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://evil.example"},
        {"code_challenge_methods_supported": ["plain"]},
        {"authorization_response_iss_parameter_supported": False},
        {"token_endpoint": "https://evil.example/token"},
        {"token_endpoint": None},
        {"revocation_endpoint": "https://127.0.0.1.evil.example/revoke"},
    ],
)
def test_a_gateway_that_does_not_vouch_for_itself_is_not_signed_in_at(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    gateway.metadata |= change
    monkeypatch.setattr(sign_in, "_PATIENCE_S", 0.0)
    result = site.run("login")
    assert (result.exit_code, "in time" in result.stderr) == (1, False)
    assert gateway.forms("/oauth/token") == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((400, {"error": "invalid_grant", "error_description": "used"}), "invalid_grant: used"),
        ((400, {"error": "invalid_grant", "error_description": "\x1b[2J"}), "invalid_grant: "),
        ((500, b"oops"), "HTTP status 500"),
        ((200, b"oops"), "something else than JSON"),
        ((200, []), "something else than an object"),
        ((200, {}), "no access token"),
        (granted(token_type="DPoP"), "no access token"),
        (granted(expires_in="600"), "no access token"),
        (granted(expires_in=10**400), "no access token"),
    ],
)
def test_a_token_endpoint_that_says_no_or_nonsense_is_told(
    site: Site,
    gateway: Authority,
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int, Any],
    told: str,
) -> None:
    gateway.tokens = [answer]
    result, _ = signed_in(site, gateway, monkeypatch)
    assert (result.exit_code, told in result.stderr, "\x1b" in result.stderr) == (1, True, False)
    assert not (site.folder / "home").exists()


def test_no_secret_is_sent_where_a_redirect_leads(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    with authority() as other:
        gateway.redirect = f"{other.issuer}/oauth/token"
        result, _ = signed_in(site, gateway, monkeypatch)
        assert (result.exit_code, other.asked) == (1, [])


def test_nobody_is_waited_for_for_ever(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "_PATIENCE_S", 0.0)
    result = site.run("login")
    assert (result.exit_code, "in time" in result.stderr) == (1, True)


def test_a_gateway_that_is_not_there_is_told(site: Site) -> None:
    with authority() as gone:
        url = gone.issuer
    result = site.run("login", "--url", url)
    assert (result.exit_code, "does not answer" in result.stderr) == (1, True)
    assert site.run("login", "--url", "http://gate.example").exit_code == 2
    assert site.run("login", "--url", "javascript:x").exit_code == 2


DEVICE = {
    "device_code": "d3vice",
    "user_code": "ABCD-EFGH",
    "verification_uri": "http://127.0.0.1/device",
    "verification_uri_complete": "http://127.0.0.1/device?user_code=ABCD-EFGH",
    "expires_in": 600,
    "interval": 5,
}
PENDING = (400, {"error": "authorization_pending"})
SLOWER = (400, {"error": "slow_down"})


def test_a_device_without_a_browser_asks_until_the_person_has_answered(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(sign_in, "_sleep", waits.append)
    gateway.device = (200, DEVICE)
    gateway.tokens = [PENDING, SLOWER, PENDING, granted()]
    result = site.run("login", "--device")
    assert result.exit_code == 0
    assert "open http://127.0.0.1/device and type ABCD-EFGH" in result.stdout
    assert "d3vice" not in result.output
    assert waits == [5.0, 5.0, 10.0, 10.0]
    (begun,) = gateway.forms("/oauth/device_authorization")
    assert begun == {
        "client_id": "douane-cli",
        "scope": "admin",
        "resource": f"{gateway.issuer}/api/v1",
    }
    assert gateway.forms("/oauth/token")[0] == {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "client_id": "douane-cli",
        "device_code": "d3vice",
        "resource": f"{gateway.issuer}/api/v1",
    }
    assert json.loads(kept(site).read_text())["access_token"] == "access-1"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([(200, DEVICE), (400, {"error": "access_denied"})], "access_denied"),
        ([(200, DEVICE), (400, {"error": "expired_token"})], "expired_token"),
        ([(200, DEVICE | {"expires_in": 12}), PENDING, PENDING, PENDING], "in time"),
        ([(200, DEVICE | {"interval": 0, "expires_in": 2}), PENDING, PENDING], "in time"),
        ([(400, {"error": "unauthorized_client"})], "unauthorized_client"),
        ([(200, {})], "RFC 8628"),
        ([(200, DEVICE | {"expires_in": 10**400})], "RFC 8628"),
    ],
)
def test_a_device_that_is_not_let_in_is_told(
    site: Site,
    gateway: Authority,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[tuple[int, Any]],
    told: str,
) -> None:
    monkeypatch.setattr(sign_in, "_sleep", lambda _: None)
    gateway.device, *gateway.tokens = answers
    result = site.run("login", "--device")
    assert (result.exit_code, told in result.stderr, gateway.tokens) == (1, True, [])


def keep(gateway: Authority, *, expires_in: float = 600, refresh: str = "refresh-1") -> None:
    tokens.Kept(gateway.issuer).write(
        tokens.Tokens(
            issuer=gateway.issuer,
            access_token="access-1",
            refresh_token=refresh,
            expires_at=time.time() + expires_in,
        )
    )


def test_later_commands_act_as_the_person_who_signed_in(site: Site, gateway: Authority) -> None:
    site.tokens.held["access-1"] = principal(
        user_id="", subject="emma", groups=frozenset({"users"})
    )
    (before,) = site.rows("whoami")
    with site.running():
        (unsigned,) = site.rows("whoami")
        keep(gateway)
        (signed,) = site.rows("whoami")
        refused = site.run("users", "add", "otto")
    assert before == unsigned
    assert (unsigned["how"], signed["how"]) == ("socket", "token")
    assert signed["name"] == "user:http://127.0.0.1:8080|emma"
    assert (refused.exit_code, "needs the role admin" in refused.stderr) == (1, True)


def test_a_sign_in_that_the_gateway_refuses_is_told_with_what_to_do(
    site: Site, gateway: Authority
) -> None:
    keep(gateway)
    with site.running():
        result = site.run("whoami")
    assert result.exit_code == 1
    assert "sign in with `douane --config " in result.stderr


def test_on_the_files_alone_a_sign_in_counts_for_nothing(site: Site, gateway: Authority) -> None:
    keep(gateway, expires_in=-1)
    assert site.rows("whoami")[0]["how"] == "socket"
    assert gateway.asked == []


def test_a_token_that_has_ended_is_refreshed_once_for_all(site: Site, gateway: Authority) -> None:
    keep(gateway, expires_in=-1)
    gateway.tokens = [granted(2)]
    found: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: found.append(tokens.current_token(gateway.issuer)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["access-2"] * 4
    assert gateway.forms("/oauth/token") == [
        {
            "grant_type": "refresh_token",
            "client_id": "douane-cli",
            "refresh_token": "refresh-1",
            "resource": f"{gateway.issuer}/api/v1",
        }
    ]
    assert json.loads(kept(site).read_text())["refresh_token"] == "refresh-2"
    assert stat.S_IMODE(kept(site).stat().st_mode) == 0o600


def test_who_comes_second_takes_what_the_first_has_refreshed(
    site: Site, gateway: Authority
) -> None:
    keep(gateway, expires_in=-1)
    gateway.tokens = [granted(2)]
    found: list[str | None] = []
    second = threading.Thread(target=lambda: found.append(tokens.current_token(gateway.issuer)))
    with tokens.Kept(gateway.issuer).locked():
        second.start()
        second.join(timeout=0.5)
        assert (second.is_alive(), gateway.asked) == (True, [])
        keep(gateway)
    second.join()
    assert (found, gateway.asked) == (["access-1"], [])


def test_a_refresh_token_that_is_not_replaced_is_kept(site: Site, gateway: Authority) -> None:
    keep(gateway, expires_in=-1)
    gateway.tokens = [granted(2, refresh_token="refresh-1")]
    gateway.tokens[0][1].pop("refresh_token")
    assert tokens.current_token(gateway.issuer) == "access-2"
    assert json.loads(kept(site).read_text())["refresh_token"] == "refresh-1"


@pytest.mark.parametrize(
    ("refresh", "answers", "told"),
    [
        ("refresh-1", [(400, {"error": "invalid_grant"})], "has ended"),
        ("", [], "has ended"),
        ("refresh-1", [(503, None)], "cannot be refreshed"),
        ("refresh-1", [(400, {"error": "invalid_client"})], "cannot be refreshed"),
    ],
)
def test_a_sign_in_that_cannot_go_on_does_not_become_somebody_else(
    site: Site, gateway: Authority, refresh: str, answers: list[tuple[int, Any]], told: str
) -> None:
    keep(gateway, expires_in=-1, refresh=refresh)
    gateway.tokens = list(answers)
    with site.running():
        result = site.run("whoami")
    assert (result.exit_code, told in result.stderr, result.stdout) == (1, True, "")


def test_a_sign_in_at_another_gateway_is_not_shown_to_this_one(
    site: Site, gateway: Authority
) -> None:
    keep(gateway)
    content = json.loads(kept(site).read_text())
    kept(site).write_text(json.dumps(content | {"issuer": "https://127.0.0.1:1"}))
    assert tokens.current_token(gateway.issuer) is None


def test_a_file_that_others_can_reach_is_not_used(site: Site, gateway: Authority) -> None:
    keep(gateway)
    kept(site).chmod(0o640)
    with pytest.raises(Failed, match="chmod 600"):
        tokens.current_token(gateway.issuer)


def test_a_file_of_another_user_or_a_link_is_not_used(
    site: Site, gateway: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(gateway)
    with monkeypatch.context() as patched:
        patched.setattr("os.geteuid", lambda: 65534)
        with pytest.raises(Failed, match="another user"):
            tokens.current_token(gateway.issuer)
    elsewhere = kept(site).rename(site.folder / "elsewhere")
    tokens.Kept(gateway.issuer).path.symlink_to(elsewhere)
    with pytest.raises(Failed, match="cannot be used"):
        tokens.current_token(gateway.issuer)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"expires_at": "soon"}'])
def test_a_damaged_file_is_told(site: Site, gateway: Authority, text: str) -> None:
    keep(gateway)
    kept(site).write_text(text)
    with pytest.raises(Failed, match="damaged"):
        tokens.current_token(gateway.issuer)


def test_logging_out_revokes_the_grant_and_forgets_it(site: Site, gateway: Authority) -> None:
    keep(gateway)
    result = site.run("logout")
    assert (result.exit_code, result.stdout) == (0, f"signed out at {gateway.issuer}\n")
    assert gateway.forms("/oauth/revoke") == [{"client_id": "douane-cli", "token": "refresh-1"}]
    assert tokens.current_token(gateway.issuer) is None
    again = site.run("logout")
    assert (again.exit_code, "you are not signed in" in again.stderr) == (1, True)


@pytest.mark.parametrize("answer", [(503, None), (400, {"error": "invalid_request"})])
def test_what_the_gateway_could_not_be_told_is_forgotten_all_the_same(
    site: Site, gateway: Authority, answer: tuple[int, Any]
) -> None:
    keep(gateway)
    gateway.revoked = answer
    result = site.run("logout")
    assert (result.exit_code, "forgotten here" in result.stderr) == (1, True)
    assert tokens.current_token(gateway.issuer) is None
