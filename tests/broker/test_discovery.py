"""Nobody's word leads the gateway where it must not go, or to a server that speaks for another."""

import pytest

from gateway.errors import EgressRefused, UpstreamFailed
from tests.broker.world import EMMA

PROTECTED = "/.well-known/oauth-protected-resource"
OAUTH = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


async def prospect(world, **changes):
    broker = world.broker(world.settings(**changes))
    return await broker.connecting.prospect("mail", EMMA.id, scopes=())


def documents(world):
    return [
        path for path in world.provider.paths if path.startswith("/.well-known") or "/t/" in path
    ]


async def test_the_documents_are_found_where_the_upstream_says(world):
    found = await prospect(world)
    assert (found.issuer, found.resource) == (world.provider.url, world.provider.resource)
    assert documents(world) == [f"{PROTECTED}/mcp", OAUTH]


async def test_a_document_at_an_address_of_the_network_is_not_fetched(world):
    metadata = "http://169.254.169.254/latest/meta-data/"
    world.provider.challenge = f'Bearer resource_metadata="{metadata}"'
    with pytest.raises(UpstreamFailed):
        await prospect(world)
    assert [url for _, url in world.fetcher.asked] == [world.provider.resource]


@pytest.mark.parametrize(
    "place", ["https://169.254.169.254/latest/meta-data/", "https://[::ffff:10.0.0.1]/prm"]
)
async def test_a_document_elsewhere_is_fetched_through_the_guard_alone(world, place):
    world.provider.challenge = f'Bearer resource_metadata="{place}"'
    with pytest.raises(EgressRefused):
        await prospect(world)
    assert world.fetcher.asked[-1] == ("GET", place)


@pytest.mark.parametrize(
    "place",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://user@as.example/",
        "https://as.example/#f",
        "gopher://x",
    ],
)
async def test_a_document_at_no_web_address_is_not_asked_for(world, place):
    world.provider.challenge = f'Bearer resource_metadata="{place}"'
    with pytest.raises(UpstreamFailed):
        await prospect(world)
    assert len(world.fetcher.asked) == 1


@pytest.mark.parametrize(
    "resource",
    [
        "https://other.example/mcp",
        "{}/mcp2",
        "{}/mcp/deeper",
        "{}/mc",
        "{}?x=1",
        "{}.evil.example",
        "",
        7,
        None,
    ],
)
async def test_metadata_for_another_resource_is_not_used(world, resource):
    said = resource.format(world.provider.url) if isinstance(resource, str) else resource
    world.provider.protected = {"resource": said}
    with pytest.raises(UpstreamFailed, match="another resource"):
        await prospect(world)
    assert OAUTH not in world.provider.paths


@pytest.mark.parametrize("resource", ["{}", "{}/", "{}/mcp"])
async def test_a_server_may_name_itself_by_its_origin(world, resource):
    said = resource.format(world.provider.url)
    world.provider.protected = {"resource": said}
    assert (await prospect(world)).resource == said


@pytest.mark.parametrize("said", ["{}/", "https://as.example", "HTTP{}", None])
async def test_metadata_of_another_issuer_is_not_used(world, said):
    world.provider.metadata = {"issuer": said and said.format(world.provider.url)}
    with pytest.raises(UpstreamFailed, match="another issuer"):
        await prospect(world)


@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256", ["s256"]])
async def test_a_server_without_pkce_is_not_used(world, methods):
    world.provider.metadata = {"code_challenge_methods_supported": methods}
    with pytest.raises(UpstreamFailed, match="PKCE"):
        await prospect(world)


@pytest.mark.parametrize(
    "member", ["authorization_endpoint", "token_endpoint", "registration_endpoint"]
)
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "http://as.example/x",
        "data:text/html,x",
        "https://a@b/",
        "/relative",
        "https://as.example/a\\b",
        "https://as.example/ x",
        7,
    ],
)
async def test_an_endpoint_that_is_no_safe_url_is_not_used(world, member, url):
    world.provider.metadata = {member: url}
    with pytest.raises(UpstreamFailed):
        await prospect(world)


async def test_well_known_places_are_tried_in_the_order_of_the_specification(world):
    issuer = f"{world.provider.url}/t"
    world.provider.challenge = "Bearer"
    world.provider.gone = {f"{PROTECTED}/mcp"}
    with pytest.raises(UpstreamFailed, match="no protected resource metadata"):
        await prospect(world)
    assert documents(world) == [f"{PROTECTED}/mcp", PROTECTED]
    world.provider.paths.clear()
    world.provider.gone = set()
    world.provider.protected = {"authorization_servers": [issuer]}
    with pytest.raises(UpstreamFailed, match="no authorization server metadata"):
        await prospect(world)
    assert documents(world) == [f"{PROTECTED}/mcp", f"{OAUTH}/t", f"{OPENID}/t", f"/t{OPENID}"]


async def test_an_operator_can_name_the_server_of_an_upstream_that_does_not(world):
    world.provider.challenge = "Bearer"
    world.provider.gone = {f"{PROTECTED}/mcp"}
    found = await prospect(world, issuer=world.provider.url)
    assert (found.issuer, found.resource) == (world.provider.url, world.provider.resource)


async def test_an_upstream_cannot_choose_another_server_than_the_operator(world):
    with pytest.raises(UpstreamFailed, match="another authorization server"):
        await prospect(world, issuer="https://as.example")


@pytest.mark.parametrize(
    "servers",
    [[], None, "https://as.example", [7], ["https://as.example/?x"], ["ftp://as.example"]],
)
async def test_an_upstream_that_names_no_server_is_not_connected(world, servers):
    world.provider.protected = {"authorization_servers": servers}
    with pytest.raises(UpstreamFailed):
        await prospect(world)
