"""The guarded way out. Every test stays on loopback, whatever guard is missing."""

import asyncio
import gzip
import json
import threading
from dataclasses import replace

import pytest

from gateway.errors import ConfigError, EgressRefused, UpstreamFailed
from gateway.upstream.egress import EgressPolicy, GuardedFetcher, WholeAnswer
from gateway.upstream.resolver import SystemResolver
from tests.listening import listening
from tests.upstream.outside import (
    LOOPBACK,
    Authority,
    NameService,
    Outside,
    Sockets,
    answer,
    web_server,
)

PUBLIC, OTHER_PUBLIC, PRIVATE = "93.184.215.14", "2606:4700::1111", "10.0.0.1"


async def refused(outside: Outside, url: str) -> None:
    """Nothing is dialled, for either verb."""
    with pytest.raises(EgressRefused):
        await outside.fetcher.get(url)
    with pytest.raises(EgressRefused):
        await outside.fetcher.post(url, form={"a": "b"})
    assert outside.sockets.dialled == []


@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254/latest/meta-data/",
        "http://169.254.169.254/latest/meta-data/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://[64:ff9b:1::a9fe:a9fe]/",
        "https://[2002:a9fe:a9fe::]/",
        "https://[2001::1]/",
        "https://[2606:4700::5efe:a9fe:a9fe]/",
        "https://[fec0::1]/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://127.1/",
        "https://0/",
        "file:///etc/passwd",
        "https://public.test@169.254.169.254/",
    ],
)
async def test_f01_f02_o21_an_address_that_is_not_public_is_not_fetched(url):
    await refused(Outside(), url)


async def test_f02_a_name_is_judged_by_every_address_that_it_has():
    names = NameService(
        private_test=[[PRIVATE]],
        mixed_test=[[PUBLIC, PRIVATE]],
        mapped_test=[[PUBLIC, "::ffff:10.0.0.1"]],
        local_test=[["fe80::1%eth0"]],
    )
    for name in ("private.test", "mixed.test", "mapped.test", "local.test"):
        await refused(Outside(names), f"https://{name}/")


async def test_f04_a_name_is_looked_up_once_and_what_was_judged_is_dialled():
    outside = Outside(NameService(rebinding_test=[[PUBLIC, OTHER_PUBLIC], ["127.0.0.1"]]))
    with pytest.raises(UpstreamFailed):
        await outside.fetcher.get("https://rebinding.test/")
    assert outside.names.asked == ["rebinding.test"]
    assert sorted(outside.sockets.dialled) == [(OTHER_PUBLIC, 443), (PUBLIC, 443)]


async def test_f04_a_name_that_turns_private_is_refused_the_next_time():
    outside = Outside(NameService(rebinding_test=[[PUBLIC], [PRIVATE]]))
    with pytest.raises(UpstreamFailed):
        await outside.fetcher.get("https://rebinding.test/")
    with pytest.raises(EgressRefused):
        await outside.fetcher.get("https://rebinding.test/")
    assert outside.sockets.dialled == [(PUBLIC, 443)]


async def test_a_public_address_is_asked_over_https_alone():
    outside = Outside(NameService(public_test=[[PUBLIC]]))
    await refused(outside, "http://public.test/")
    await refused(outside, f"http://{PUBLIC}:8080/")


@pytest.mark.parametrize("port", [1, 22, 25, 80, 110, 445, 993, 1023])
async def test_a_port_of_another_service_is_not_dialled(port):
    await refused(Outside(NameService(public_test=[[PUBLIC]])), f"https://public.test:{port}/")


@pytest.mark.parametrize("port", [443, 1024, 8443, 65535])
async def test_a_port_where_web_servers_are_is_dialled(port):
    outside = Outside(NameService(public_test=[[PUBLIC]]))
    with pytest.raises(UpstreamFailed):
        await outside.fetcher.get(f"https://public.test:{port}/")
    assert outside.sockets.dialled == [(PUBLIC, port)]


async def test_what_the_operator_allows_is_reached_and_nothing_beside_it():
    policy = EgressPolicy.of(["10.1.0.0/16", "fd00::/8"])
    names = NameService(
        inside_test=[["10.1.2.3", "fd00::1"]],
        beside_test=[["10.2.0.1"]],
        both_test=[["10.1.0.1", PRIVATE]],
    )
    outside = Outside(names, policy=policy)
    with pytest.raises(UpstreamFailed):
        await outside.fetcher.get("http://inside.test:22/")
    assert sorted(outside.sockets.dialled) == [("10.1.2.3", 22), ("fd00::1", 22)]
    for name in ("beside.test", "both.test"):
        await refused(Outside(names, policy=policy), f"https://{name}/")
    await refused(Outside(policy=policy), "https://[::ffff:10.1.2.3]/")


async def test_a_public_address_is_judged_as_public_although_the_operator_allows_another():
    outside = Outside(NameService(mixed_test=[["127.0.0.1", PUBLIC]]), policy=LOOPBACK)
    await refused(outside, "http://mixed.test/")


async def test_the_answer_comes_back_whole():
    async with web_server(
        answer(b'{"a": 1}', status="201 Created", headers={"X-One": "1", "x-two": "2"})
    ) as server:
        outside = Outside(NameService(idp_test=[["127.0.0.1"]]), policy=LOOPBACK)
        found = await outside.fetcher.get(f"http://idp.test:{server.port}/a%2Fb?x=%41")
    assert found == WholeAnswer(
        status=201,
        headers={
            "content-type": "application/json",
            "content-length": "8",
            "x-one": "1",
            "x-two": "2",
        },
        body=b'{"a": 1}',
    )
    assert found.json() == {"a": 1}
    head = server.requests[0].decode().lower()
    assert head.startswith("get /a%2fb?x=%41 http/1.1\r\n")
    assert f"\r\nhost: idp.test:{server.port}\r\n" in head
    assert "\r\naccept-encoding: identity\r\n" in head


async def test_what_cannot_be_asked_is_asked_nowhere():
    outside = Outside(policy=LOOPBACK)
    async with web_server(answer()) as server:
        with pytest.raises(ValueError, match="no line"):
            await outside.fetcher.get(f"http://127.0.0.1:{server.port}/", headers={"x": "a\nb: c"})
    assert outside.sockets.dialled == []


async def test_headers_of_one_name_are_joined():
    async with web_server(answer(headers={"Link": "a", "link": "b"})) as server:
        outside = Outside(policy=LOOPBACK)
        found = await outside.fetcher.get(f"http://127.0.0.1:{server.port}/")
    assert found.headers["link"] == "a, b"


async def test_forms_and_documents_are_posted_with_the_headers_given():
    async with web_server() as server:
        url = f"http://127.0.0.1:{server.port}/token"
        fetcher = Outside(policy=LOOPBACK).fetcher
        await fetcher.post(url, form={"code": "a b&c"}, headers={"authorization": "Basic eA=="})
        await fetcher.post(url, json={"name": "x"})
    form, document = server.requests
    assert form.startswith(b"POST /token HTTP/1.1\r\n")
    assert b"authorization: Basic eA==\r\n" in form
    assert b"content-type: application/x-www-form-urlencoded\r\n" in form
    assert form.endswith(b"\r\n\r\ncode=a+b%26c")
    assert b"content-type: application/json\r\n" in document
    assert json.loads(document.partition(b"\r\n\r\n")[2]) == {"name": "x"}


async def test_a_body_is_sent_as_it_is_and_the_answer_comes_back_whole():
    async with web_server(answer(b"{}", status="429 Slow", headers={"retry-after": "7"})) as server:
        url = f"http://127.0.0.1:{server.port}/v1/logs"
        headers = {"content-type": "application/x-ndjson", "authorization": "Bearer x"}
        fetcher = Outside(policy=LOOPBACK).fetcher
        found = await fetcher.upload(url, b'{"a":1}\n{"a":2}\n', headers=headers)
    assert (found.status, found.body, found.headers["retry-after"]) == (429, b"{}", "7")
    (request,) = server.requests
    assert request.startswith(b"POST /v1/logs HTTP/1.1\r\n")
    assert b"authorization: Bearer x\r\n" in request
    assert b"content-type: application/x-ndjson\r\n" in request
    assert request.endswith(b'\r\n\r\n{"a":1}\n{"a":2}\n')


@pytest.mark.parametrize(
    "said",
    [
        answer(b"x" * (257 * 1024)),
        answer(b"{}", headers={"content-encoding": "gzip"}),
    ],
    ids=["large", "compressed"],
)
async def test_what_was_taken_is_not_sent_again_whatever_the_answer_says_of_it(said: bytes):
    async with web_server(said) as server:
        fetcher = Outside(policy=LOOPBACK).fetcher
        url = f"http://127.0.0.1:{server.port}/v1/logs"
        found = await fetcher.upload(url, b"{}", headers={})
        assert (found.status, found.body) == (200, b"")
        with pytest.raises(UpstreamFailed):
            await fetcher.post(url, json={})


async def test_what_was_taken_is_not_sent_again_although_the_answer_broke_off():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    async with listening(serve) as port:
        url = f"http://127.0.0.1:{port}/v1/logs"
        found = await Outside(policy=LOOPBACK).fetcher.upload(url, b"{}", headers={})
    assert (found.status, found.body) == (200, b"")


async def test_o21_a_redirect_is_an_answer_and_not_followed():
    async with web_server(
        answer(status="302 Found", headers={"location": "http://127.0.0.1:9/"})
    ) as server:
        outside = Outside(policy=LOOPBACK)
        found = await outside.fetcher.get(f"http://127.0.0.1:{server.port}/")
    assert (found.status, len(server.requests)) == (302, 1)
    assert outside.sockets.dialled == [("127.0.0.1", server.port)]


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with web_server() as server:
        found = await Outside(policy=LOOPBACK).fetcher.get(f"http://127.0.0.1:{server.port}/")
    assert found.status == 200


async def test_a_cookie_is_not_kept_and_no_connection_is():
    async with web_server(answer(headers={"set-cookie": "a=b"})) as server:
        outside = Outside(NameService(idp_test=[["127.0.0.1"]]), policy=LOOPBACK)
        for _ in range(2):
            await outside.fetcher.get(f"http://idp.test:{server.port}/")
    assert len(outside.sockets.dialled) == 2
    assert all(b"cookie" not in request.lower() for request in server.requests)


@pytest.mark.parametrize("chunked", [False, True])
async def test_o21_an_answer_that_is_too_large_is_refused(chunked):
    body = b"x" * 1025
    reply = (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n401\r\n" + body + b"\r\n0\r\n\r\n"
        if chunked
        else answer(body)
    )
    async with web_server(reply) as server:
        with pytest.raises(UpstreamFailed, match="more than 1024 bytes"):
            await Outside(policy=LOOPBACK).fetcher.get(f"http://127.0.0.1:{server.port}/")
        server.answer = answer(body[:1024])
        found = await Outside(policy=LOOPBACK).fetcher.get(f"http://127.0.0.1:{server.port}/")
    assert len(found.body) == 1024


async def test_a_compressed_answer_is_refused():
    reply = answer(gzip.compress(b"{}"), headers={"content-encoding": "gzip"})
    async with web_server(reply) as server:
        with pytest.raises(UpstreamFailed, match="encoding"):
            await Outside(policy=LOOPBACK).fetcher.get(f"http://127.0.0.1:{server.port}/")


@pytest.mark.parametrize(
    "reply",
    [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", b"HTTP/1.1 200 OK\r\n"],
    ids=["silence", "half a body", "half a head"],
)
async def test_an_answer_that_does_not_end_in_time_is_a_fault(reply):
    async with web_server(reply) as server:
        outside = Outside(policy=LOOPBACK, whole_s=0.2)
        async with asyncio.timeout(60):
            with pytest.raises(UpstreamFailed, match=r"within 0\.2 s"):
                await outside.fetcher.get(f"http://127.0.0.1:{server.port}/")


async def test_a_name_service_that_does_not_answer_in_time_is_a_fault():
    class Silent(NameService):
        async def __call__(self, name: str, port: int, who: str = "") -> list[str]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(UpstreamFailed, match=r"within 0\.05 s"):
        await Outside(Silent(), whole_s=0.05).fetcher.get("https://slow.test/")


async def test_a_name_without_a_usable_address_is_a_fault():
    names = NameService(empty_test=[[]], nonsense_test=[["not an address"]])
    for name in ("unknown.test", "empty.test", "nonsense.test"):
        with pytest.raises(UpstreamFailed):
            await Outside(names).fetcher.get(f"https://{name}/")


async def test_what_is_not_http_and_what_does_not_listen_is_a_fault():
    async with web_server(b"SSH-2.0-OpenSSH\r\n\r\n") as server:
        with pytest.raises(UpstreamFailed):
            await Outside(policy=LOOPBACK).fetcher.get(f"http://127.0.0.1:{server.port}/")
        port = server.port
    with pytest.raises(UpstreamFailed):
        await Outside(policy=LOOPBACK).fetcher.get(f"http://127.0.0.1:{port}/")


async def test_tls_is_verified_by_the_name_and_speaks_of_the_name(tmp_path):
    authority = Authority(tmp_path)
    names = NameService(idp_test=[["127.0.0.1"]])
    async with web_server(tls=authority.server("idp.test")) as server:
        outside = Outside(names, policy=LOOPBACK, ca=authority.file)
        found = await outside.fetcher.get(f"https://idp.test:{server.port}/")
    assert (found.status, server.server_names) == (200, ["idp.test"])


async def test_a_certificate_for_another_name_is_refused(tmp_path):
    authority = Authority(tmp_path)
    names = NameService(idp_test=[["127.0.0.1"]])
    async with web_server(tls=authority.server("other.test")) as server:
        outside = Outside(names, policy=LOOPBACK, ca=authority.file)
        with pytest.raises(UpstreamFailed, match="CertVerification"):
            await outside.fetcher.get(f"https://idp.test:{server.port}/")
    assert server.requests == []


async def test_an_authority_that_nobody_named_is_not_trusted(tmp_path):
    names = NameService(idp_test=[["127.0.0.1"]])
    async with web_server(tls=Authority(tmp_path).server("idp.test")) as server:
        with pytest.raises(UpstreamFailed, match="CertVerification"):
            await Outside(names, policy=LOOPBACK).fetcher.get(f"https://idp.test:{server.port}/")
    assert server.requests == []


def test_a_further_authority_that_cannot_be_read_stops_the_start(tmp_path):
    (tmp_path / "empty.pem").write_bytes(b"")
    for name in ("empty.pem", "none.pem"):
        with pytest.raises(ConfigError, match=r"egress\.ca"):
            Outside(ca=tmp_path / name)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"1", b"{", b'{"a":1,"a":2}', b"\xff{}", b'{"a":NaN}', b"[" * 20 + b"]" * 20],
)
def test_a_body_that_is_no_plain_json_object_is_a_fault(body):
    found = WholeAnswer(status=200, headers={}, body=body)
    with pytest.raises(UpstreamFailed):
        found.json()


def test_a_body_is_not_shown():
    found = WholeAnswer(status=200, headers={}, body=b"token")
    assert "token" not in repr(found)
    assert replace(found, body=b"x") != found


async def test_names_are_looked_up_on_threads_of_their_own(monkeypatch):
    seen: list[str] = []

    def look_up(*_: object, **__: object) -> list[object]:
        seen.append(threading.current_thread().name)
        return [(2, 1, 6, "", ("127.0.0.1", 1)), (2, 1, 6, "", ("127.0.0.1", 1))]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    assert await SystemResolver()("idp.test", 443) == ("127.0.0.1",)
    assert seen[0].startswith("resolver")


async def test_the_systems_own_word_for_this_machine_is_loopback():
    sockets = Sockets()
    fetcher = GuardedFetcher(EgressPolicy(), sockets=sockets)
    with pytest.raises(EgressRefused):
        await fetcher.get("https://localhost/")
    assert sockets.dialled == []
