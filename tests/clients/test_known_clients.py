"""What clients in the field do, step by step, as their users and makers told it: see each file's `source`.

source: where it was told, and when
steps:  one request each, with what must come back; `{name}` stands for what is known by then
after:  what the record says then
"""

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import yaml

from tests.e2e.own import own_gateway
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import Corridor
from tests.running import rules_in

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
_FIELD = re.compile(r"\{(\w+)\}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Corridor, Raw]]:
    folder = tmp_path_factory.mktemp("clients")
    with (
        raw_in_a_thread() as raw,
        own_gateway(folder, raw, rules_in(folder / "policies")) as gateway,
    ):
        yield gateway, raw


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_client_gets_what_it_can_go_on_with(site: tuple[Corridor, Raw], file: Path) -> None:
    gateway, _ = site
    play = yaml.safe_load(file.read_text())
    assert play["source"].strip()
    known = {"url": gateway.url, "token": gateway.token("raw")}
    for number, step in enumerate(play["steps"], 1):
        try:
            _played(gateway, step, known)
        except AssertionError as error:
            raise AssertionError(f"{file.stem}, step {number}: {error}") from None
    for query in play.get("after", ()):
        rows = gateway.running.rows("audit", "query", "--where", _filled(query["where"], known))
        assert len(rows) >= query.get("least", 1), (
            f"{file.stem}: {query['where']}: {len(rows)} records"
        )


def _played(gateway: Corridor, step: Mapping[str, Any], known: dict[str, str]) -> None:
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
