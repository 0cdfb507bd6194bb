"""docs/configuration.md and the reader of the configuration say the same."""

import typing
from collections.abc import Iterator

import pytest
import yaml
from pydantic import BaseModel

from gateway.config.console import Console
from gateway.config.model import Config
from gateway.config.planes import Planes
from gateway.errors import ConfigError
from tests.docs.pages import ROOT, rows

PAGE = ROOT / "docs" / "configuration.md"
TABLE = {row["key"].strip("`"): row for row in rows(PAGE, "key")}
FIXED = (
    *("public_url", "listen", "admin_listen", "data_dir", "storage", "auth", "audit", "tls"),
    "limits",
    "egress",
    "runs",
    "alerts",
)
MOVES = {"console.listen", "console.url"}
GRPC = "planes.grpc"
"""Where a listener is stays, though what is shown there may change."""


def _keys(section: type[BaseModel], before: str = "") -> Iterator[tuple[str, object]]:
    for name, field in section.model_fields.items():
        key = before + (field.alias or name)
        inner, below = _section_of(field.annotation)
        if not below:  # `servers` and `tools` are mappings of names, which have no key themselves
            yield key, ... if field.is_required() else field.default
        elif inner is not None:
            yield key, field.default
        if inner is not None:
            yield from _keys(inner, key + below + ".")


def _section_of(annotation: object) -> tuple[type[BaseModel] | None, str]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    for part in typing.get_args(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part, ".NAME" if typing.get_origin(annotation) is dict else ""
    return None, ""


KEYS = dict(_keys(Config))


def _plain(default: object) -> object:
    if isinstance(default, tuple):
        return [_plain(item) for item in default]
    if isinstance(default, dict):
        return {name: _plain(item) for name, item in default.items()}
    return default


def test_every_key_of_the_reader_is_on_the_page_and_no_other() -> None:
    assert set(TABLE) == set(KEYS)


def test_the_default_on_the_page_is_the_readers() -> None:
    told = {key: row["default"] for key, row in TABLE.items()}
    assert {key: _told(told[key], default) for key, default in KEYS.items()} == {
        key: "required" if default is ... else "none" if default is None else _plain(default)
        for key, default in KEYS.items()
    }


def _told(text: str, default: object) -> object:
    return text if default is ... or default is None else yaml.safe_load(text.strip("`"))


def test_the_page_says_which_keys_a_reload_takes_up() -> None:
    told = {key: row["reload"] for key, row in TABLE.items() if key != "version"}
    fixed = {
        key
        for key in told
        if key.partition(".")[0] in FIXED or key in MOVES or key.startswith(GRPC)
    }
    assert told == {key: "no" if key in fixed else "yes" for key in told}


@pytest.mark.parametrize("key", [name for name in Config.model_fields if name != "version"])
def test_a_reload_refuses_exactly_the_keys_that_the_page_says(key: str) -> None:
    from gateway.wiring import reading

    before = Config.model_construct(None, **dict.fromkeys(Config.model_fields, 0))
    after = before.model_copy(update={key: 1})
    if key in FIXED:
        with pytest.raises(ConfigError):
            reading.require_same_process(before, after)
    else:
        reading.require_same_process(before, after)


@pytest.mark.parametrize("key", sorted(MOVES))
def test_where_the_desk_listens_stays_though_what_it_shows_may_change(key: str) -> None:
    from gateway.wiring import reading

    sections = {
        name: Console.model_construct(None, listen=None, url=None, read_only=read_only)
        for name, read_only in (("one", False), ("other", True))
    }
    zeros = dict.fromkeys(Config.model_fields, 0)
    before = Config.model_construct(None, **{**zeros, "console": sections["one"]})
    reading.require_same_process(before, before.model_copy(update={"console": sections["other"]}))
    moved = sections["one"].model_copy(update={key.partition(".")[2]: "elsewhere"})
    with pytest.raises(ConfigError):
        reading.require_same_process(before, before.model_copy(update={"console": moved}))


def test_where_planes_ask_by_grpc_stays_though_planes_may_change() -> None:
    from gateway.wiring import reading

    sections = [
        Planes.model_construct(None, authzen={}, ext_authz={}, ext_proc=found, ext_mcp={}, grpc=at)
        for found, at in (({}, "here"), ({"edge": "new"}, "here"), ({}, "elsewhere"))
    ]
    zeros = dict.fromkeys(Config.model_fields, 0)
    before, more, moved = (
        Config.model_construct(None, **{**zeros, "planes": section}) for section in sections
    )
    reading.require_same_process(before, more)
    with pytest.raises(ConfigError):
        reading.require_same_process(before, moved)


def test_every_value_of_a_closed_set_is_on_the_page() -> None:
    for key, words in _closed_sets(Config):
        told = TABLE[key]["type"]
        missing = [word for word in words if f"`{word}`" not in told]
        assert not missing, f"{key}: {missing}"


def _closed_sets(section: type[BaseModel], before: str = "") -> Iterator[tuple[str, list[str]]]:
    schema = section.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    for name, field in section.model_fields.items():
        key = before + (field.alias or name)
        inner, below = _section_of(field.annotation)
        if inner is not None:
            yield from _closed_sets(inner, key + below + ".")
            continue
        found = schema["properties"][field.alias or name]
        for option in [found, *found.get("anyOf", [])]:
            resolved = definitions.get(option.get("$ref", "").rpartition("/")[2], option)
            if "enum" in resolved:
                yield key, resolved["enum"]
            elif "const" in resolved:
                yield key, [str(resolved["const"])]
