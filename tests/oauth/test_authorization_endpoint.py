"""The authorization endpoint: who may ask, for what, and where the answer goes."""

from dataclasses import replace

import pytest

from gateway.domain.grants import AuthorizationCode, AuthorizationRequest, Grant
from gateway.domain.identity import AuthMethod, ClientKind
from gateway.oauth.authorization import Begun, RedirectedError, must_ask
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.protocol import token_hash
from tests.oauth.house import ALICE, CALLBACK, CHALLENGE, CURSOR, SOURCE, House, answer_in, query
from tests.oauth.world import MAIL, NOW, PUBLIC_URL

REQUEST = AuthorizationRequest(
    client_id="dcr_app",
    redirect_uri=CALLBACK,
    endpoint=MAIL,
    scopes=frozenset({"tools:list", "tools:call"}),
    state="x y/z&1",
    code_challenge=CHALLENGE,
)


async def refused(house: House, asked: bytes, **more: bool) -> OAuthError:
    """Return the refusal of a request, which is on record."""
    before = len(house.log.records)
    with pytest.raises(OAuthError) as refusal:
        await house.authorization.begin(asked, SOURCE, **more)
    (record,) = house.log.records[before:]
    assert record.fields["code"] == refusal.value.error.value
    assert record.fields["verdict"] == "deny"
    assert record.fields["source_ip"] == SOURCE
    return refusal.value


async def redirected(house: House, asked: bytes, **more: bool) -> dict[str, str]:
    """Return what a client is told of a refusal: always with its state and our name."""
    refusal = await refused(house, asked, **more)
    assert isinstance(refusal, RedirectedError)
    assert refusal.redirect_uri == CALLBACK
    assert refusal.client_id == "dcr_app"
    assert refusal.location.startswith(CALLBACK + "?")
    answer = answer_in(refusal.location)
    assert answer.pop("iss") == PUBLIC_URL
    assert answer.pop("error_description") == refusal.public
    return answer


async def paged(house: House, asked: bytes) -> ErrorCode:
    """Return the error of a refusal that is shown, never sent anywhere."""
    refusal = await refused(house, asked)
    assert not isinstance(refusal, RedirectedError)
    assert not hasattr(refusal, "location")
    return refusal.error


async def test_a_good_request_can_be_put_to_a_person(house):
    client = house.add()
    begun = await house.authorization.begin(query(), SOURCE)
    assert begun == Begun(client=client, request=REQUEST)
    assert house.log.records == []


async def test_a_request_without_a_resource_is_for_the_aggregate(house):
    house.add()
    begun = await house.authorization.begin(query(without="resource"), SOURCE)
    assert begun.request.endpoint == "/mcp"


async def test_a_registered_client_with_one_resource_need_not_name_it(house):
    house.add(
        kind=ClientKind.REGISTERED,
        resources=frozenset({MAIL}),
        scopes=frozenset({"tools:list", "admin"}),
    )
    begun = await house.authorization.begin(query(without="resource"), SOURCE)
    assert (begun.request.endpoint, begun.request.scopes) == (MAIL, {"tools:list"})


async def test_the_command_line_gets_the_admin_api_on_any_port(house):
    begun = await house.authorization.begin(
        query(
            without="resource",
            client_id="douane-cli",
            redirect_uri="http://127.0.0.1:40001/callback",
            scope="admin",
        ),
        SOURCE,
    )
    assert begun.request.endpoint == "/api/v1"
    assert begun.request.scopes == {"admin"}
    assert begun.request.redirect_uri == "http://127.0.0.1:40001/callback"


@pytest.mark.parametrize("client_id", ["dcr_other", "", "douane", "https://app.example/"])
async def test_an_unknown_client_is_sent_nowhere(house, client_id):
    house.add()
    assert await paged(house, query(client_id=client_id)) is ErrorCode.INVALID_CLIENT


async def test_a_request_without_a_client_is_sent_nowhere(house):
    house.add()
    assert await paged(house, query(without="client_id")) is ErrorCode.INVALID_CLIENT


@pytest.mark.parametrize(
    "redirect_uri",
    [
        "https://evil.test/cb",
        CALLBACK + "/",
        CALLBACK + "?x=1",
        CALLBACK + "#",
        "https://APP.example/cb",
        "https://app.example:443/cb",
        "http://app.example/cb",
        "https://user@app.example/cb",
        "https://app.example@evil.test/cb",
        "https://app.example/../cb",
        'https://app.example/cb"',
        "https://app.example\\@evil.test/",
        "javascript:alert(1)",
        "//app.example/cb",
        "",
    ],
)
async def test_a_redirect_uri_that_is_not_the_clients_is_sent_nothing(house, redirect_uri):
    house.add()
    assert await paged(house, query(redirect_uri=redirect_uri)) is ErrorCode.INVALID_REQUEST


async def test_a_redirect_uri_has_to_be_named_also_where_there_is_one(house):
    house.add()
    assert await paged(house, query(without="redirect_uri")) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "state", "scope", "code_challenge"])
async def test_a_parameter_that_is_repeated_is_sent_nowhere(house, name):
    house.add()
    assert await paged(house, query((name, "x"))) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "asked",
    [
        b"client_id",
        b"%ff=1",
        query(state="a\r\nb"),
        query(state="\u202e"),
        query(state="x" * 9000),
        query(*((f"p{number}", "x") for number in range(40))),
        "client_id=\u00e9".encode(),
    ],
)
async def test_what_cannot_be_read_is_sent_nowhere(house, asked):
    house.add()
    assert await paged(house, asked) is ErrorCode.INVALID_REQUEST


NO_CHALLENGE = {"error": "invalid_request", "state": "x y/z&1"}


@pytest.mark.parametrize("methods", [{AuthMethod.NONE}, {AuthMethod.BASIC}])
@pytest.mark.parametrize(
    "asked",
    [
        query(without="code_challenge"),
        query(without="code_challenge_method"),
        query(code_challenge_method="plain"),
        query(code_challenge_method="s256"),
        query(code_challenge=CHALLENGE[:-1]),
        query(code_challenge=CHALLENGE + "A"),
        query(code_challenge=CHALLENGE[:-1] + "~"),
        query(code_challenge=CHALLENGE[:-1] + "="),
        query(code_challenge="A" * 128),
    ],
)
async def test_every_client_proves_that_the_code_is_its_own(house, asked, methods):
    house.add(auth_methods=frozenset(methods))
    assert await redirected(house, asked) == NO_CHALLENGE


@pytest.mark.parametrize(
    "resource",
    [
        "https://other.example/mcp/mail",
        "/mcp/mail",
        PUBLIC_URL,
        PUBLIC_URL + "/",
        PUBLIC_URL + "/mcp/mail//",
        PUBLIC_URL + "/mcp/mail#x",
        PUBLIC_URL + "/mcp/mail?x",
        PUBLIC_URL + "/mcp/none",
        PUBLIC_URL + "/mcp/../mcp/mail",
        PUBLIC_URL + "/api/v1",
        'x"',
    ],
)
async def test_a_resource_that_a_client_cannot_have_is_an_invalid_target(house, resource):
    house.add()
    assert await redirected(house, query(resource=resource)) == {
        "error": "invalid_target",
        "state": "x y/z&1",
    }


@pytest.mark.parametrize("second", [PUBLIC_URL + "/mcp", PUBLIC_URL + MAIL])
async def test_a_token_is_for_one_resource(house, second):
    house.add()
    assert (await redirected(house, query(("resource", second))))["error"] == "invalid_target"


async def test_two_resources_hide_no_second_client(house):
    house.add()
    twice = query(("resource", PUBLIC_URL + "/mcp"), ("client_id", "dcr_app"))
    assert await paged(house, twice) is ErrorCode.INVALID_REQUEST


async def test_a_registered_client_gets_no_other_resource_than_its_own(house):
    house.add(
        kind=ClientKind.REGISTERED,
        resources=frozenset({MAIL, "/api/v1"}),
        scopes=frozenset({"tools:list", "admin"}),
    )
    web = query(resource=PUBLIC_URL + "/mcp/web")
    assert (await redirected(house, web))["error"] == "invalid_target"
    begun = await house.authorization.begin(
        query(resource=PUBLIC_URL + "/api/v1", scope="admin"), SOURCE
    )
    assert begun.request.scopes == {"admin"}


@pytest.mark.parametrize("scope", ["tools:all", "tools:list tools:all", "tools:list  x", "Openid"])
async def test_an_unknown_scope_is_refused(house, scope):
    house.add()
    assert (await redirected(house, query(scope=scope)))["error"] == "invalid_scope"


@pytest.mark.parametrize("scope", ["admin", "code:run servers:manage"])
async def test_a_request_of_which_nothing_is_left_is_refused(house, scope):
    house.add()
    assert (await redirected(house, query(scope=scope)))["error"] == "invalid_scope"


@pytest.mark.parametrize("scope", ["offline_access", " offline_access", "openid profile email"])
async def test_who_asks_for_scopes_of_identity_alone_gets_what_is_asked_for_at_first(house, scope):
    house.add()
    begun = await house.authorization.begin(query(scope=scope), SOURCE)
    assert begun.request.scopes == {"tools:list", "tools:call", "prompts", "resources"}


async def test_a_resource_may_end_with_a_slash(house):
    house.add()
    begun = await house.authorization.begin(query(resource=PUBLIC_URL + "/mcp/mail/"), SOURCE)
    assert begun.request.endpoint == "/mcp/mail"


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        ("tools:list code:run", {"tools:list"}),
        ("tools:list offline_access", {"tools:list"}),
        ("tools:list admin tools:write", {"tools:list", "tools:write"}),
    ],
)
async def test_what_the_endpoint_has_no_use_for_is_left_out(house, scope, left):
    house.add()
    assert (await house.authorization.begin(query(scope=scope), SOURCE)).request.scopes == left


async def test_without_a_wish_a_client_asks_for_all_that_the_endpoint_needs(house):
    house.add()
    begun = await house.authorization.begin(query(without="scope"), SOURCE)
    assert begun.request.scopes == {
        "tools:list",
        "tools:call",
        "tools:write",
        "prompts",
        "resources",
    }


async def test_what_a_client_asked_for_on_its_first_day_is_no_ceiling(house):
    house.add(scopes=frozenset({"tools:list"}))
    begun = await house.authorization.begin(query(scope="tools:list tools:write"), SOURCE)
    assert begun.request.scopes == {"tools:list", "tools:write"}


@pytest.mark.parametrize("response_type", ["token", "id_token", "code token", "none", 'c"\\', ""])
async def test_there_is_no_response_type_but_code(house, response_type):
    house.add()
    answer = await redirected(house, query(response_type=response_type))
    assert answer == {"error": "unsupported_response_type", "state": "x y/z&1"}


@pytest.mark.parametrize("mode", ["fragment", "form_post", "web_message", "query.jwt", 'q"'])
async def test_there_is_no_response_mode_but_query(house, mode):
    house.add()
    assert (await redirected(house, query(response_mode=mode)))["error"] == "invalid_request"
    assert await house.authorization.begin(query(response_mode="query"), SOURCE)


async def test_a_client_without_the_grant_gets_no_code(house):
    house.add(grants=("client_credentials",))
    assert (await redirected(house, query()))["error"] == "unauthorized_client"


@pytest.mark.parametrize(
    ("signed_in", "error"), [(False, "login_required"), (True, "consent_required")]
)
@pytest.mark.parametrize("prompt", ["none", "none login"])
async def test_nothing_is_granted_without_asking(house, prompt, signed_in, error):
    house.add()
    answer = await redirected(house, query(prompt=prompt), signed_in=signed_in)
    assert answer == {"error": error, "state": "x y/z&1"}


async def test_how_a_person_is_to_be_asked_is_passed_on(house):
    house.add()
    begun = await house.authorization.begin(query(prompt="consent login other"), SOURCE)
    assert begun.prompts == {"consent", "login"}


async def test_a_client_without_a_state_gets_none_back(house):
    house.add()
    assert await redirected(house, query(without="state", response_type="token")) == {
        "error": "unsupported_response_type"
    }


async def test_an_unrecorded_refusal_is_no_redirect(house):
    house.add()
    house.log.failure = "no disk"
    with pytest.raises(OAuthError) as refusal:
        await house.authorization.begin(query(response_type="token"), SOURCE)
    assert refusal.value.error is ErrorCode.TEMPORARILY_UNAVAILABLE
    assert not isinstance(refusal.value, RedirectedError)


async def test_an_approval_stores_a_code_that_lives_a_minute_and_its_grant(house):
    house.add()
    location = await house.authorization.approve(REQUEST, ALICE, SOURCE)
    assert location.startswith(CALLBACK + "?code=")
    answer = answer_in(location)
    code = answer.pop("code")
    assert answer == {"state": "x y/z&1", "iss": PUBLIC_URL}
    stored = house.stores.grants.code(token_hash(code))
    assert stored == AuthorizationCode(
        code_hash=token_hash(code),
        grant_id=stored.grant_id,
        client_id="dcr_app",
        redirect_uri=CALLBACK,
        code_challenge=CHALLENGE,
        expires_at=NOW + 60,
    )
    assert house.stores.grants.grant(stored.grant_id) == Grant(
        id=stored.grant_id,
        user_id=ALICE.id,
        client_id="dcr_app",
        endpoint=MAIL,
        scopes=REQUEST.scopes,
        created_at=NOW,
        expires_at=NOW + 90 * 86400,
    )


async def test_an_approval_is_on_record_without_its_code(house):
    house.add()
    location = await house.authorization.approve(REQUEST, ALICE, SOURCE)
    (record,) = house.log.records
    (grant,) = house.stores.grants.grants()
    message = f"scope tools:call tools:list, grant {grant.id}"
    assert record.kind.value == "token"
    assert record.fields == {
        "principal": "alice",
        "client": "dcr_app",
        "endpoint": MAIL,
        "method": "oauth/authorize",
        "source_ip": SOURCE,
        "verdict": "allow",
        "code": "code_issued",
        "reasons": [{"code": "code_issued", "message": message}],
    }
    for secret in (answer_in(location)["code"], CHALLENGE, "x y/z&1"):
        assert secret not in repr(record)


async def test_without_a_record_there_is_no_code(house):
    house.add()
    house.log.failure = "no disk"
    with pytest.raises(OAuthError) as refusal:
        await house.authorization.approve(REQUEST, ALICE, SOURCE)
    assert refusal.value.error is ErrorCode.TEMPORARILY_UNAVAILABLE
    assert house.stores.grants.grants() == []


async def test_two_approvals_are_two_codes(house):
    house.add()
    first = await house.authorization.approve(REQUEST, ALICE, SOURCE)
    second = await house.authorization.approve(REQUEST, ALICE, SOURCE)
    assert answer_in(first)["code"] != answer_in(second)["code"]


async def test_the_redirect_uri_is_kept_to_the_letter(house):
    uri = "https://app.example/cb?flag&x=%2F..%2f+"
    house.add(redirect_uris=(uri,))
    location = await house.authorization.approve(replace(REQUEST, redirect_uri=uri), ALICE, SOURCE)
    assert location.startswith(uri + "&code=")


async def test_a_no_is_told_and_recorded(house):
    house.add()
    location = await house.authorization.deny(REQUEST, ALICE, SOURCE)
    assert location.startswith(CALLBACK + "?")
    assert answer_in(location) == {
        "error": "access_denied",
        "error_description": "the person said no",
        "state": "x y/z&1",
        "iss": PUBLIC_URL,
    }
    assert house.told == [("token", "deny", "access_denied", "dcr_app")]
    assert house.stores.grants.grants() == []


async def test_an_unrecorded_no_is_not_told(house):
    house.log.failure = "no disk"
    with pytest.raises(OAuthError):
        await house.authorization.deny(REQUEST, ALICE, SOURCE)


async def test_a_client_that_is_gone_meanwhile_gets_no_code(house):
    with pytest.raises(OAuthError) as refusal:
        await house.authorization.approve(REQUEST, ALICE, SOURCE)
    assert refusal.value.error is ErrorCode.INVALID_CLIENT
    assert not isinstance(refusal.value, RedirectedError)


async def test_a_redirect_uri_that_is_gone_meanwhile_is_sent_nothing(house):
    house.add(redirect_uris=("https://app.example/new",))
    with pytest.raises(OAuthError) as refusal:
        await house.authorization.approve(REQUEST, ALICE, SOURCE)
    assert not isinstance(refusal.value, RedirectedError)
    assert house.stores.grants.grants() == []


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"endpoint": "/mcp/gone"},
        {"endpoint": "/api/v1", "scopes": frozenset({"admin"})},
    ],
)
async def test_what_cannot_be_had_any_longer_is_not_granted(house, meanwhile):
    house.add()
    with pytest.raises(RedirectedError) as refusal:
        await house.authorization.approve(replace(REQUEST, **meanwhile), ALICE, SOURCE)
    assert refusal.value.error is ErrorCode.ACCESS_DENIED
    assert house.stores.grants.grants() == []


async def test_a_registration_that_was_narrowed_meanwhile_counts(house):
    house.add(
        kind=ClientKind.REGISTERED, resources=frozenset({MAIL}), scopes=frozenset({"tools:list"})
    )
    with pytest.raises(RedirectedError):
        await house.authorization.approve(REQUEST, ALICE, SOURCE)


async def test_a_person_who_was_disabled_meanwhile_grants_nothing(house):
    house.add()
    house.stores.users.change(ALICE.id, disabled=True, at=NOW)
    with pytest.raises(RedirectedError) as refusal:
        await house.authorization.approve(REQUEST, ALICE, SOURCE)
    assert refusal.value.error is ErrorCode.ACCESS_DENIED


async def test_a_person_who_was_removed_meanwhile_grants_nothing(house):
    house.add()
    house.stores.users.remove(ALICE.id, at=NOW)
    with pytest.raises(RedirectedError):
        await house.authorization.approve(REQUEST, ALICE, SOURCE)


@pytest.mark.parametrize(
    ("redirect_uri", "methods", "always"),
    [
        ("https://app.example/cb", {AuthMethod.NONE}, False),
        ("http://127.0.0.1:1/cb", {AuthMethod.NONE}, True),
        ("http://[::1]:1/cb", {AuthMethod.NONE}, True),
        ("http://localhost/cb", {AuthMethod.NONE}, True),
        (CURSOR, {AuthMethod.NONE}, True),
        (CURSOR, {AuthMethod.BASIC}, False),
        ("http://localhost/cb", {AuthMethod.PRIVATE_KEY_JWT}, False),
    ],
)
def test_what_any_program_can_pretend_to_be_is_asked_about_every_time(
    house, redirect_uri, methods, always
):
    client = house.add(auth_methods=frozenset(methods))
    assert must_ask(client, redirect_uri) is always
