"""The admin API: a token and nothing else opens it, and a browser page has none."""

import threading
from collections.abc import Callable
from itertools import count, product
from typing import Any

import orjson
import pytest

from gateway import turns
from gateway.domain import nodes
from gateway.web import api
from tests.admin.world import principal, sighting, user
from tests.web.api_site import HOST, JSON, METADATA, TOKEN, ApiSite
from tests.web.asgi import Exchange

ADD = orjson.dumps({"name": "otto"})


def told(answer: Exchange) -> tuple[int, Any]:
    return answer.status, orjson.loads(answer.body)


def refused(answer: Exchange) -> tuple[int, str]:
    return answer.status, orjson.loads(answer.body)["code"]


async def test_a_command_that_reads_is_a_get():
    answer = await ApiSite().get("whoami")
    assert told(answer) == (
        200,
        {"name": "user:emma", "roles": ["admin"], "user_id": "u_emma", "how": "token"},
    )
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"


async def test_arguments_of_a_get_are_its_query():
    site = ApiSite()
    assert told(await site.get("grants/list", b"user=emma")) == (200, [])
    assert refused(await site.get("grants/list", b"user=nobody")) == (404, "not_found")


async def test_a_command_that_changes_is_a_post_and_on_record():
    site = ApiSite()
    status, row = told(await site.post("users/add", {"name": "otto", "groups": ["users"]}))
    assert (status, row["user"]) == (200, "otto")
    (record,) = site.world.written
    assert (record["principal"], record["method"]) == ("user:emma", "users.add")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "users/list", "GET"),
        ("GET", "users/add", "POST"),
        ("PUT", "users/add", "POST"),
        ("DELETE", "users/list", "GET"),
        ("HEAD", "users/list", "GET"),
        ("OPTIONS", "users/list", "GET"),
    ],
)
async def test_each_command_has_one_method(method, path, allowed):
    answer = await ApiSite().ask(method, path, TOKEN, JSON, chunks=(b"{}",))
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Basic Z29vZDo=")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer bad")],
        [TOKEN, TOKEN],
        [(b"cookie", b"__Host-douane-session=good; token=good")],
        [(b"x-forwarded-user", b"emma")],
    ],
)
async def test_without_a_token_nothing_answers(headers):
    for method, path in product(
        ("GET", "POST", "OPTIONS"), ["users/add", "users/list", "none", "", "../healthz"]
    ):
        answer = await ApiSite().ask(method, path, *headers, JSON, chunks=(ADD,))
        assert refused(answer) == (401, "unauthenticated"), (method, path)
        assert answer.headers["www-authenticate"] == (
            f'Bearer scope="admin", resource_metadata="{METADATA}"'
        )


async def test_a_token_in_the_query_is_none():
    answer = await ApiSite().ask("GET", "users/list", query=b"access_token=good")
    assert answer.status == 401


async def test_a_token_without_the_scope_says_which_is_missing():
    site = ApiSite()
    site.world.tokens.held["good"] = principal(scopes=frozenset({"tools:call"}))
    answer = await site.get("users/list")
    assert refused(answer) == (403, "insufficient_scope")
    assert answer.headers["www-authenticate"] == (
        f'Bearer error="insufficient_scope", scope="admin", resource_metadata="{METADATA}"'
    )


async def test_a_person_without_the_role_is_forbidden():
    site = ApiSite()
    site.world.users.change("u_emma", groups=frozenset({"users"}), at=0)
    assert refused(await site.get("users/list")) == (403, "forbidden")
    assert refused(await site.post("users/add", {"name": "otto"})) == (403, "forbidden")
    told = [
        (record["principal"], record["method"], record["code"]) for record in site.world.written
    ]
    assert told == [("user:emma", name, "forbidden") for name in ("users.list", "users.add")]
    assert {(record["kind"], record["verdict"]) for record in site.world.written} == {
        ("admin", "deny")
    }


async def test_what_is_done_with_a_token_is_on_record_with_the_token_and_where_it_came_from():
    site = ApiSite()
    await site.post("users/add", {"name": "otto"})
    (record,) = site.world.written
    assert record["token_id"] == principal().token_id
    assert record["source_ip"]
    assert b"good" not in site.world.log.entries[-1].body


@pytest.mark.parametrize(
    "origin", [b"https://evil.example", b"http://127.0.0.1:8081", b"null", b""]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_no_page_of_a_browser_is_answered_not_even_our_own(method, origin):
    site = ApiSite()
    answer = await site.ask(method, "users/add", TOKEN, JSON, (b"origin", origin), chunks=(ADD,))
    assert answer.status == 403
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert (len(site.world.users.all()), site.world.written) == (1, [])
    assert [code for code, _ in site.world.unread] == ["origin"]


@pytest.mark.parametrize(
    "kinds",
    [
        [],
        [b"application/x-www-form-urlencoded"],
        [b"text/plain"],
        [b"multipart/form-data; boundary=x"],
        [b"application/json-patch+json"],
        [b"application/json", b"text/plain"],
    ],
)
async def test_what_a_form_can_send_changes_nothing(kinds):
    site = ApiSite()
    headers = [(b"content-type", kind) for kind in kinds]
    answer = await site.ask("POST", "users/add", TOKEN, *headers, chunks=(ADD,))
    assert answer.status == 415
    assert len(site.world.users.all()) == 1


async def test_a_form_from_another_site_changes_nothing():
    site = ApiSite()
    form = (
        (b"content-type", b"application/x-www-form-urlencoded"),
        (b"cookie", b"__Host-douane-session=s"),
    )
    answer = await site.ask("POST", "users/add", *form, chunks=(b"name=otto",))
    assert answer.status == 401
    assert len(site.world.users.all()) == 1


async def test_a_command_has_one_path():
    site = ApiSite()
    assert (await site.ask("GET", "users/list", TOKEN)).status == 200
    assert refused(await site.ask("GET", "users.list", TOKEN)) == (404, "not_found")


@pytest.mark.parametrize(
    "body",
    [b"", b"nonsense", b"[]", b'"users add"', b'{"name": 1}', b'{"name": "otto", "by": "root"}'],
)
async def test_a_body_that_is_no_set_of_arguments_is_told(body):
    site = ApiSite()
    answer = await site.ask("POST", "users/add", TOKEN, JSON, chunks=(body,))
    assert refused(answer) == (400, "bad_command")
    assert len(site.world.users.all()) == 1


async def test_arguments_of_too_many_nodes_are_refused(monkeypatch):
    monkeypatch.setattr(nodes, "MOST_NODES", 10)
    body = b'{"name":[' + b",".join([b"{}"] * 10) + b"]}"
    answer = await ApiSite().ask("POST", "users/add", TOKEN, JSON, chunks=(body,))
    assert refused(answer) == (400, "bad_command")
    assert b"too much of it" in answer.body


@pytest.mark.parametrize("much", [False, True])
async def test_a_body_that_is_much_is_read_beside_the_loop(monkeypatch, much):
    threads = []

    def noted(body, depth):
        threads.append(threading.get_ident())
        return nodes.require_small(body, depth)

    monkeypatch.setattr(api, "require_small", noted)
    monkeypatch.setattr(turns, "QUICK_NODES", 2_000)
    site = ApiSite(most_bytes=20_000)
    content = {"name": "otto", "groups": ["users"] * (2_100 if much else 1)}
    status, _ = told(await site.post("users/add", content))
    assert status == (400 if much else 200)  # they are more than a record names
    assert (threads != [threading.get_ident()]) is much
    assert len(threads) == 1


@pytest.mark.parametrize("query", [b"user=a&user=b", b"shell=ls", b"%FF", b"user=%FF", b"a&" * 200])
async def test_a_query_that_is_no_set_of_arguments_is_told(query):
    assert refused(await ApiSite().get("grants/list", query)) == (400, "bad_command")


async def test_a_post_takes_no_arguments_from_its_query():
    site = ApiSite()
    answer = await site.ask("POST", "users/add", TOKEN, JSON, chunks=(ADD,), query=b"name=otto")
    assert refused(answer) == (400, "bad_command")


@pytest.mark.parametrize("path", ["shell", "users", "users/add/otto", "users.add;ls", "users/add "])
async def test_there_is_nothing_but_the_commands(path):
    assert refused(await ApiSite().post(path, {})) == (404, "not_found")


async def held_back(site: ApiSite, meanwhile: Callable[[], object]) -> Exchange:
    """Ask for a person to be added, with a body that comes once something else has happened."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def late() -> Any:
            meanwhile()
            return await receive()

        await site.app(scope, late, send)

    return await Exchange(chunks=(ADD,)).ask(app, "POST", "/api/v1/users/add", (HOST, TOKEN, JSON))


async def test_whoever_was_disabled_while_their_body_was_held_back_changes_nothing():
    site = ApiSite()
    site.world.users.add(user("ada"))
    answer = await held_back(site, lambda: site.world.users.change("u_emma", disabled=True, at=0.0))
    assert refused(answer) == (401, "unauthenticated")
    assert len(site.world.users.all()) == 2
    (record,) = site.world.written
    assert (record["kind"], record["verdict"]) == ("auth", "deny")


async def test_whoever_lost_their_role_while_their_body_was_held_back_changes_nothing():
    site = ApiSite()
    groups = frozenset({"users"})
    answer = await held_back(site, lambda: site.world.users.change("u_emma", groups=groups, at=0.0))
    assert refused(answer) == (403, "forbidden")
    assert len(site.world.users.all()) == 1
    (record,) = site.world.written
    assert (record["code"], record["roles"]) == ("forbidden", ["user"])


async def test_whoever_was_given_a_role_while_their_body_came_has_it():
    site = ApiSite()
    site.world.users.change("u_emma", groups=frozenset({"users"}), at=0.0)
    groups = frozenset({"admins"})
    answer = await held_back(site, lambda: site.world.users.change("u_emma", groups=groups, at=0.0))
    assert answer.status == 200


async def test_whoever_was_disabled_while_what_they_sent_waited_for_its_turn_changes_nothing(
    monkeypatch,
):
    site = ApiSite()

    async def turn(who: str, weight: int, work: Callable[..., Any], *args: Any) -> Any:
        site.world.users.change("u_emma", disabled=True, at=0.0)
        return work(*args)

    monkeypatch.setattr(api, "in_turn", turn)
    assert refused(await site.post("users/add", {"name": "otto"})) == (401, "unauthenticated")
    assert len(site.world.users.all()) == 1


async def test_a_large_body_is_not_read_to_its_end():
    site = ApiSite()
    chunks = (b'{"name": "', b"x" * 2000, b"y" * 2000, b'"}')
    answer = await site.ask("POST", "users/add", TOKEN, JSON, chunks=chunks)
    assert refused(answer) == (413, "limit_exceeded")
    assert answer.received == 2


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(api, "_BODY_S", 0.01)
    site = ApiSite()
    exchange = Exchange(chunks=[b"{"], never_ends=True)
    answer = await exchange.ask(site.app, "POST", "/api/v1/users/add", (HOST, TOKEN, JSON))
    assert refused(answer) == (400, "bad_command")


async def test_a_body_that_is_cut_short_is_nothing():
    site = ApiSite()
    exchange = Exchange(chunks=[b"{"], never_ends=True)
    exchange.gone.set()
    answer = await exchange.ask(site.app, "POST", "/api/v1/users/add", (HOST, TOKEN, JSON))
    assert refused(answer) == (400, "bad_command")


async def test_what_cannot_be_recorded_does_not_happen():
    site = ApiSite()
    site.world.log.failure = "disk full"
    assert refused(await site.post("users/add", {"name": "otto"})) == (503, "audit_unavailable")
    assert len(site.world.users.all()) == 1


async def test_a_definition_that_changed_meanwhile_is_a_conflict():
    site = ApiSite()
    await site.world.show(sighting("send"))
    reviewed = [{"kind": "tool", "name": "send", "profile": "modern", "digest": "sha256:0"}]
    reviewed[0]["address"] = ""
    answer = await site.post("pins/approve", {"server": "mail", "reviewed": reviewed})
    assert refused(answer) == (409, "pin_mismatch")


def lines(answer: Exchange) -> list[Any]:
    return [orjson.loads(line) for line in answer.body.splitlines()]


async def test_a_stream_is_a_line_an_item_and_says_when_it_is_over():
    answer = await ApiSite().get("streams/count", b"to=2")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert lines(answer) == [
        {"more": True, "result": 0},
        {"more": True, "result": 1},
        {"more": False},
    ]
    assert lines(await ApiSite().get("streams/count", b"to=0")) == [{"more": False}]


@pytest.mark.parametrize(
    ("what", "code"), [("token", "unauthenticated"), ("roles", "forbidden"), ("nothing", "")]
)
async def test_a_stream_ends_for_whoever_may_read_it_no_more(what: str, code: str):
    seconds = count(0, 15)
    site = ApiSite(at=lambda: float(next(seconds)))
    first, *further = lines(await site.get("streams/lose", f"what={what}".encode()))
    assert first == {"more": True, "result": 1}
    assert [each.get("code", each.get("result", "")) for each in further] == (
        [code] if code else [2, ""]
    )
    noted = [orjson.loads(entry.body).get("code") for entry in site.world.log.entries]
    assert noted == [code] * bool(code)


async def test_a_stream_that_breaks_off_says_so():
    assert lines(await ApiSite().get("streams/break")) == [
        {"more": True, "result": 1},
        {"more": False, "code": "audit_unavailable", "message": "the log cannot be read"},
    ]


async def test_what_breaks_a_stream_off_is_on_record():
    site = ApiSite()
    assert lines(await site.get("streams/stop"))[-1]["code"] == "not_found"
    (record,) = site.world.written
    assert (record["principal"], record["method"], record["code"]) == (
        "user:emma",
        "streams.stop",
        "not_found",
    )


async def test_a_stream_that_is_refused_is_a_status_with_its_reasons():
    assert told(await ApiSite().get("streams/refuse")) == (
        403,
        {
            "code": "denied",
            "message": "not for you",
            "reasons": [{"code": "rule", "message": "nobody may"}],
        },
    )


async def test_who_guesses_tokens_is_heard_no_more_and_recorded_no_more():
    site = ApiSite(most_failures=3)
    for _ in range(3):
        answer = await site.ask("GET", "whoami", (b"authorization", b"Bearer bad"))
        assert answer.status == 401
    answer = await site.get("whoami")
    assert refused(answer) == (429, "throttled")
    assert answer.headers["retry-after"] == "60"
    assert [record["kind"] for record in site.world.written] == ["auth"] * 3
    ((code, source_ip),) = site.world.unread
    assert (code, bool(source_ip)) == ("throttled", True)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Basic Z29vZDo=")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer " + b"x" * 20_000)],
        [(b"authorization", b"DPoP good")],
        [TOKEN, TOKEN],
    ],
)
async def test_who_shows_no_token_is_on_record_as_whoever_shows_a_bad_one(headers):
    site = ApiSite()
    await site.ask("GET", "whoami", *headers)
    (record,) = site.world.written
    assert (record["kind"], record["code"]) == ("auth", "unauthenticated")
    assert record["source_ip"]
    site.world.log.failure = "disk full"
    assert refused(await site.ask("GET", "whoami", *headers)) == (503, "audit_unavailable")


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "code"),
    [
        ("GET", "nothing/here", (), b"", "not_found"),
        ("GET", "users.list", (), b"", "not_found"),
        ("DELETE", "whoami", (), b"", "method_not_allowed"),
        ("GET", "grants/list", (), b"", "bad_command"),
        ("POST", "users/add", (), ADD, "bad_command"),
        ("POST", "users/add", (JSON,), b"nonsense", "bad_command"),
        ("POST", "users/add", (JSON,), b'{"name": 1}', "bad_command"),
        ("POST", "users/add", (JSON,), b"x" * 2000, "limit_exceeded"),
        ("GET", "streams/refuse", (), b"", "denied"),
    ],
)
async def test_every_refused_command_is_on_record(
    method: str, path: str, headers: tuple[tuple[bytes, bytes], ...], body: bytes, code: str
):
    site = ApiSite()
    query = b"shell=ls" if path == "grants/list" else b""
    answer = await site.ask(method, path, TOKEN, *headers, chunks=(body,), query=query)
    assert answer.status >= 400
    (record,) = [orjson.loads(entry.body) for entry in site.world.log.entries]
    assert (record["verdict"], record["code"]) == ("deny", code)
    assert record["principal"].endswith("emma")


async def test_refused_commands_beyond_so_many_a_minute_are_counted(monkeypatch):
    monkeypatch.setattr(api, "_MOST_RECORDED", 2)
    site = ApiSite()
    for _ in range(3):
        await site.get("nothing/here")
    assert len(site.world.log.entries) == 2
    assert [code for code, _ in site.world.unread] == ["not_found"]
