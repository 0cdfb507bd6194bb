"""Servers that are registered beside `douane.yaml`: read as part of it, and never more than it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config, load
from gateway.config.registered import FILE, with_server, without_server
from gateway.errors import ConfigError

OWN = """\
version: 1
public_url: http://127.0.0.1:8080
servers:
  mail: {url: "http://127.0.0.1:9001/mcp"}
"""
WEB = {"url": "http://127.0.0.1:9002/mcp"}


class Files:
    def __init__(self, folder: Path) -> None:
        self.own = folder / "douane.yaml"
        self.own.write_text(OWN)
        self.data = folder / "var"
        self.data.mkdir()
        self.registered = self.data / FILE

    def register(self, **servers: Any) -> None:
        self.registered.write_text(json.dumps({"servers": servers}, indent=2))

    def load(self) -> Config:
        return load(self.own, {})

    def problems(self) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load()
        folder = f"{self.own.parent}/"
        return [one.removeprefix(folder) for one in caught.value.problems]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_registered_server_is_one_like_the_others(files: Files) -> None:
    files.register(web={**WEB, "credential": {"kind": "oauth"}})
    config = files.load()
    assert sorted(config.servers) == ["mail", "web"]
    assert (config.servers["web"].url, config.servers["web"].credential.kind) == (
        WEB["url"],
        "oauth",
    )
    assert config.servers["web"].rule == config.servers["mail"].rule
    assert config.file == files.own


def test_without_the_file_there_are_those_of_the_configuration(files: Files) -> None:
    assert list(files.load().servers) == ["mail"]
    files.own.write_text(OWN + "data_dir: ./elsewhere\n")
    files.register(web=WEB)
    assert list(files.load().servers) == ["mail"]


def test_it_is_looked_for_where_the_data_is(files: Files, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    files.register(web=WEB)
    files.registered.rename(tmp_path / "data" / FILE)
    files.own.write_text(OWN + f"data_dir: {tmp_path / 'data'}\n")
    assert sorted(files.load().servers) == ["mail", "web"]


def test_a_name_in_both_files_is_an_error_that_says_so(files: Files) -> None:
    files.register(mail=WEB)
    assert files.problems() == [
        (f"var/{FILE}:3: servers.mail: is in {files.own} as well; remove it there, or in this file")
    ]


@pytest.mark.parametrize(
    ("name", "section", "problem"),
    [
        ("web", {**WEB, "command": ["sh"]}, "servers.web.command: a registered server has none"),
        ("web", {**WEB, "tools": {}}, "servers.web.tools: a registered server has none"),
        ("web", {**WEB, "defaults": {}}, "servers.web.defaults: a registered server has none"),
        ("web", {"url": "ftp://x"}, "servers.web.url:"),
        ("web", {}, "servers.web.url:"),
        ("web", "x", "servers.web:"),
        ("Web", WEB, "servers.Web:"),
        (
            "web",
            {**WEB, "credential": {"kind": "header", "value": "s3cret"}},
            "servers.web.credential.value: secrets come by reference only",
        ),
        (
            "web",
            {**WEB, "credential": {"kind": "header", "value": "file:var/audit.key"}},
            "servers.web.credential.value: what is in data_dir is nobody's credential",
        ),
        (
            "web",
            {**WEB, "credential": {"kind": "header", "value": "file:./x/../var/audit.key"}},
            "servers.web.credential.value: what is in data_dir is nobody's credential",
        ),
        (
            "web",
            {**WEB, "credential": {"kind": "header", "value": "env:NOT_SET"}},
            "servers.web.credential.value: `env:NOT_SET` is missing",
        ),
    ],
)
def test_what_is_wrong_is_told_with_the_file_and_the_line(
    files: Files, name: str, section: Any, problem: str
) -> None:
    files.register(**{name: section})
    found = [one for one in files.problems() if problem in one]
    assert found
    assert all(one.startswith(f"var/{FILE}:") for one in files.problems())
    assert "s3cret" not in "".join(files.problems())


@pytest.mark.parametrize(
    ("kind", "key", "text"),
    [
        ("header", "value", "env:DOUANE_KEK"),
        ("header", "value", "env:MAIL"),
        ("header", "value", "file:token"),
        ("header", "value", "file:var/../link"),
        ("exchange", "client_secret", "env:DOUANE_KEK"),
    ],
)
def test_the_operators_secrets_are_shown_to_no_registered_server(
    files: Files, tmp_path: Path, kind: str, key: str, text: str
) -> None:
    (tmp_path / "token").write_text("t0ken")
    (tmp_path / "link").symlink_to("token")
    files.own.write_text(
        "version: 1\npublic_url: http://127.0.0.1:8080\n"
        "auth: {key_encryption_key: 'env:DOUANE_KEK'}\nservers:\n"
        "  mail: {url: 'http://127.0.0.1:9001/mcp', credential: {kind: header, value: 'env:MAIL'}}\n"
        "  news: {url: 'http://127.0.0.1:9003/mcp', credential: {kind: header, value: 'file:token'}}\n"
    )
    trade = {"token_url": "https://evil.example/token", "client_id": "x"}
    credential = {"kind": kind, key: text, **(trade if kind == "exchange" else {})}
    files.register(web={**WEB, "credential": credential})
    problem = f"servers.web.credential.{key}: douane.yaml uses this secret; give the server one of"
    with pytest.raises(ConfigError) as caught:
        load(files.own, None)
    (found,) = caught.value.problems
    assert found.startswith(f"{files.registered}:")
    assert problem in found


def test_registered_servers_have_secrets_of_their_own(files: Files) -> None:
    credential = {"kind": "header", "value": "env:WEB"}
    files.register(web={**WEB, "credential": credential}, news={**WEB, "credential": credential})
    assert sorted(load(files.own, {"WEB": "x"}).servers) == ["mail", "news", "web"]


def test_a_file_that_is_none_is_refused(files: Files) -> None:
    for text, problem in {
        "servers: []\n": ":1: servers: write a mapping of names to settings",
        "servers: {}\nversion: 1\n": ":2: version: unknown key; there is `servers` alone",
        "{": "not YAML",
    }.items():
        files.registered.write_text(text)
        assert problem in "".join(files.problems())


def test_what_is_wrong_in_the_configuration_is_told_as_before(files: Files) -> None:
    files.own.write_text(OWN.split("servers:", maxsplit=1)[0] + "servers: [mail]\n")
    files.register(web=WEB)
    assert files.problems() == ["douane.yaml:3: servers: write a mapping of names to settings"]


def test_what_is_about_to_be_written_can_be_tried_first(files: Files) -> None:
    text = with_server(None, files.registered, "web", WEB)
    assert sorted(load(files.own, {}, registered=text).servers) == ["mail", "web"]
    assert list(files.load().servers) == ["mail"]
    again = with_server(text, files.registered, "news", WEB)
    assert sorted(load(files.own, {}, registered=again).servers) == ["mail", "news", "web"]
    gone = without_server(again, files.registered, "web")
    assert sorted(load(files.own, {}, registered=gone).servers) == ["mail", "news"]
