"""What clients in the field do, step by step, as their users and makers told it: see each file's `source`.

source: where it was told, and when
steps:  one request each, with what must come back; `{name}` stands for what is known by then; one with
        `allowed` a person opens, who says yes: the code that comes of it is known by that name
after:  what the record says then
alone:  whether it is at a gateway of its own, which it leaves unfit for others

tools:  definitions of a `server`, by their names, in the place of steps
lint:   by host, what is told of them as an error
"""

import asyncio
import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import yaml

from gateway.pins.hosts import HOSTS
from gateway.pins.portability import troubles
from tests.e2e.own import own_gateway
from tests.e2e.scripted import raw_in_a_thread
from tests.e2e.site import Corridor
from tests.e2e.test_grants_and_runs import person
from tests.running import rules_in

HERE = Path(__file__).parent
PLAYS = {file.stem: yaml.safe_load(file.read_text()) for file in sorted(HERE.glob("*.yaml"))}
CALLING = [name for name, play in PLAYS.items() if "steps" in play]
LINTED = [name for name, play in PLAYS.items() if "lint" in play]
COPIES = {
    json.loads(file.read_text())["client_id"]: str(file)
    for file in sorted((HERE / "documents").glob("*.json"))
}
"""Documents of clients, as an administrator keeps them."""
_FIELD = re.compile(r"\{(\w+)\}")


@contextmanager
def gateway_in(folder: Path) -> Iterator[Corridor]:
    registration = {"copies": COPIES}
    with (
        raw_in_a_thread() as raw,
        own_gateway(
            folder,
            raw,
            rules_in(folder / "policies"),
            auth={"registration": registration},
        ) as gateway,
    ):
        yield gateway


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corridor]:
    with gateway_in(tmp_path_factory.mktemp("clients")) as gateway:
        yield gateway


@pytest.mark.parametrize("name", PLAYS)
def test_each_says_who_told_it_and_when(name: str) -> None:
    assert re.search(r"20\d\d-\d\d", PLAYS[name]["source"])


@pytest.mark.parametrize("name", LINTED)
def test_what_a_host_does_not_take_is_told(name: str) -> None:
    play = PLAYS[name]
    for host, patterns in play["lint"].items():
        told = troubles(HOSTS[host], play["server"], play["tools"])
        said = [f"{one.tool}: {one.text}" for one in told if one.level == "error"]
        for pattern in patterns:
            assert any(re.search(pattern, one) for one in said), f"{host}: {pattern}: {said}"


@pytest.mark.parametrize("name", CALLING)
def test_a_client_gets_what_it_can_go_on_with(site: Corridor, name: str, tmp_path: Path) -> None:
    if PLAYS[name].get("alone"):
        with gateway_in(tmp_path) as gateway:
            play_at(gateway, name)
    else:
        play_at(site, name)


def play_at(gateway: Corridor, name: str) -> None:
    play = PLAYS[name]
    known = {"url": gateway.url, "token": gateway.token("raw")}
    for number, step in enumerate(play["steps"], 1):
        try:
            _played(gateway, step, known)
        except AssertionError as error:
            raise AssertionError(f"{name}, step {number}: {error}") from None
    for query in play.get("after", ()):
        rows = gateway.running.rows("audit", "query", "--where", _filled(query["where"], known))
        assert len(rows) >= query.get("least", 1), f"{name}: {query['where']}: {len(rows)} records"


def _played(gateway: Corridor, step: Mapping[str, Any], known: dict[str, str]) -> None:
    if "allowed" in step:
        known[step["allowed"]] = asyncio.run(_allowed(gateway, step, known))
        return
    for _ in range(step.get("times", 1)):
        status, headers, body = _sent(gateway, step, known)
        expected = step["expect"]
        wanted = expected["status"]
        assert status in (wanted if isinstance(wanted, list) else [wanted]), (
            f"{status}: {body[:300]}"
        )
        for name, pattern in expected.get("headers", {}).items():
            said = headers.get(name.lower(), "")
            assert re.search(_filled(pattern, known), said), f"{name}: {said!r}"
        for path, content in expected.get("json", {}).items():
            found = _at(_message(headers, body), path)
            assert found == _filled(content, known), f"{path}: {found!r}"
        for pattern in expected.get("says", ()):
            assert re.search(_filled(pattern, known), body), f"{pattern}: {body[:300]}"
        for pattern in expected.get("not", ()):
            assert not re.search(_filled(pattern, known), body), f"{pattern}: {body[:300]}"
        for name, path in step.get("keep", {}).items():
            kept = headers[path[1:]] if path.startswith("@") else _at(_message(headers, body), path)
            known[name] = str(kept)


async def _allowed(gateway: Corridor, step: Mapping[str, Any], known: Mapping[str, str]) -> str:
    browser = await person(gateway)
    query = urlencode(_filled(step["query"], known))
    page = await browser.get(f"{gateway.url}{step['path']}?{query}")
    page = await browser.submit(page.form("consent"), page, action="approve")
    (code,) = parse_qs(urlsplit(page.leaves_for).query)["code"]
    return code


def _sent(
    gateway: Corridor, step: Mapping[str, Any], known: Mapping[str, str]
) -> tuple[int, dict[str, str], str]:
    headers = {name: _filled(said, known) for name, said in step.get("headers", {}).items()}
    path, body = _filled(step["path"], known), None
    if "query" in step:
        path = f"{path}?{urlencode(_filled(step['query'], known))}"
    if "json" in step:
        headers.setdefault("content-type", "application/json")
        headers.setdefault("accept", "application/json, text/event-stream")
        body = json.dumps(_filled(step["json"], known))
    if "form" in step:
        headers.setdefault("content-type", "application/x-www-form-urlencoded")
        body = urlencode(_filled(step["form"], known))
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=60)
    try:
        connection.request(step["method"], path, body=body, headers=headers)
        answer = connection.getresponse()
        told = {name.lower(): said for name, said in answer.getheaders()}
        return answer.status, told, answer.read().decode()
    finally:
        connection.close()


def _message(headers: Mapping[str, str], body: str) -> Any:
    if headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line for line in body.splitlines() if line.startswith("data:")]
        return json.loads(lines[-1].removeprefix("data:"))
    return json.loads(body)


def _at(node: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(node, list):
            node = node[int(name)] if int(name) < len(node) else None
        else:
            node = node.get(name) if isinstance(node, dict) else None
    return node


def _filled(node: Any, known: Mapping[str, str]) -> Any:
    if isinstance(node, str):
        return _FIELD.sub(lambda found: known.get(found[1], found[0]), node)
    if isinstance(node, list):
        return [_filled(inner, known) for inner in node]
    if isinstance(node, dict):
        return {name: _filled(inner, known) for name, inner in node.items()}
    return node
