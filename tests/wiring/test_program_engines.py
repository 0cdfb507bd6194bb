"""Which engines run programs: as the file says, and as is installed."""

import sys
from pathlib import Path

import pytest

from gateway.config import Config, load
from gateway.domain.programs import Language
from gateway.errors import ConfigError
from gateway.sandbox import jail
from gateway.sandbox.deno import MISSING
from gateway.wiring import probe_programs
from gateway.wiring.code import engine_of, told_of

BOTH = (Language.PYTHON, Language.TYPESCRIPT)


def config(folder: Path, **code: str) -> Config:
    keys = "".join(f", {key}: {word}" for key, word in code.items())
    path = folder / "douane.yaml"
    path.write_text(
        f"version: 1\npublic_url: https://gateway.example\ndata_dir: {folder}\n"
        f"servers: {{}}\ncode: {{enabled: true{keys}}}\n"
    )
    return load(path, {})


async def test_typescript_is_there_where_deno_is(tmp_path: Path) -> None:
    async with engine_of(config(tmp_path)) as engines:
        assert engines is not None
        assert (engines.languages, engines.language) == (BOTH, "python")
        held = "jailed" if engines.confinement.jailed else "not jailed: "
        assert told_of(engines)["programs"].startswith(held)
        assert told_of(engines)["typescript"].startswith(held)
    assert told_of(None) == {}


async def test_typescript_can_be_switched_off(tmp_path: Path) -> None:
    off = config(tmp_path, typescript="off")
    async with engine_of(off) as engines:
        assert engines is not None
        assert engines.languages == (Language.PYTHON,)
        assert told_of(engines)["typescript"] == "not there"
    assert (await probe_programs(off))["typescript"] == "it is switched off"


async def test_the_check_of_its_types_can_be_switched_off_and_that_is_told(tmp_path: Path) -> None:
    async with engine_of(config(tmp_path, typescript_check="false")) as engines:
        assert engines is not None
        assert [engines.checks(language) for language in BOTH] == [True, False]
        told = told_of(engines)
        assert told["typescript"] == f"{told['programs']}; types are not checked"
        assert engines.checks_types
    async with engine_of(config(tmp_path)) as engines:
        assert engines is not None
        assert engines.checks(Language.TYPESCRIPT) == engines.held(Language.TYPESCRIPT).jailed


async def test_without_deno_there_is_python_alone_or_nothing_if_it_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deno", None)
    async with engine_of(config(tmp_path)) as engines:
        assert engines is not None
        assert engines.languages == (Language.PYTHON,)
    assert (await probe_programs(config(tmp_path)))["typescript"] == MISSING
    required = config(tmp_path, typescript="required")
    with pytest.raises(ConfigError, match="programs must be run in TypeScript"):
        async with engine_of(required):
            pass
    with pytest.raises(ConfigError, match="programs must be run in TypeScript"):
        await probe_programs(required)


async def test_where_a_jail_is_required_each_engine_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jail, "_PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="programs must run in a jail, and there is none"):
        async with engine_of(config(tmp_path, jail="required")):
            pass
    (python, typescript) = (await probe_programs(config(tmp_path))).values()
    assert python == typescript
