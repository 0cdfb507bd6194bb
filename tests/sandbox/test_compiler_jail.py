"""The compiler reads whatever a program refers to: in its jail there is nothing of ours to read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.programs import SandboxLimits
from gateway.sandbox import jail
from gateway.sandbox.compiler_errors import wrapped
from gateway.sandbox.deno import DenoEngine, deno_engine
from tests.cases import sampled

LIMITS = SandboxLimits(wall_s=20.0)
READING = {
    "path": '/// <reference path="HERE/bad.ts" />',
    "types": '/// <reference types="HERE/bad.ts" />',
    "type": 'const n: typeof import("HERE/good.ts").KEY = "other";',
    "named type": 'let n: import("HERE/good.ts").Key = 1;',
    "imported later": 'const m = await import("file://HERE/good.ts"); m.KEY satisfies never;',
    "told types": '// @ts-types="HERE/good.ts"\n(await import("data:,")).KEY satisfies never;',
    "declared": 'declare module "HERE/good.ts" { export const KEY: 1; }',
}
"""Ways in which the text of a program has the compiler read another file."""
OUTSIDE = {
    "reference": '/// <reference path="HERE/bad.ts" />',
    "imported": 'import { KEY } from "HERE/good.ts"; export const n: 1 = KEY;',
    "unread": 'import { KEY } from "HERE/bad.ts"; export const n = KEY;',
    "required": 'import n = require("HERE/good.ts"); export const m: 1 = n.KEY;',
    "exported": 'export * from "HERE/bad.ts";',
    "data": 'import d from "HERE/data.json" with { type: "json" }; export const n: 1 = d;',
    "through data": 'import { KEY } from "data:text/typescript,export * from %22file://HERE/good.ts%22";\n'
    "export const n: typeof KEY = 1;",
}
"""Ways of a text that ends the function in which it is put, and goes on beside it."""
SEEN = {
    *("type", "named type", "imported later", "imported", "unread", "required", "exported"),
    *("data", "through data"),
}
"""Those of which what is in the file is told where nothing stands in their way."""
FEW = ("type", "reference", "through data")
OTHERS = tuple({**READING, **OUTSIDE}.keys() - set(FEW))
"""A compiler of its own for each takes seconds: few stand for all."""
CANARY = "canary7c1d04b8"


def beside(folder: Path) -> Path:
    place = folder / "beside"
    place.mkdir()
    (place / "good.ts").write_text(
        f'export type Key = "{CANARY}";\nexport const KEY = "{CANARY}" as const;\n'
    )
    (place / "bad.ts").write_text(f"export const KEY = {CANARY} :: x\n")
    (place / "data.json").write_text(f'{{"{CANARY}": "{CANARY}"}}\n')
    return place


async def told_by(engine: DenoEngine, place: Path, ways: Sequence[str]) -> set[str]:
    """Return the ways by which the compiler says what is in a file, whoever is told of it."""
    checker: Any = engine._checker
    beyond = {name: f"}};\n{one}\n() => {{" for name, one in OUTSIDE.items()}
    codes = {**READING, **beyond}
    found = set()
    for name in ways:
        code = codes[name].replace("HERE", str(place))
        _, said = await checker._compiled(wrapped(code, ""))
        if CANARY in said:
            found.add(name)
    return found


@pytest.mark.parametrize("ways", sampled([(FEW,), (OTHERS,)], {(FEW,)}.__contains__))
async def test_the_compiler_reads_no_file_of_ours(tmp_path: Path, ways: Sequence[str]) -> None:
    async with deno_engine(LIMITS, tmp_path, warm=0) as engine:
        assert await told_by(engine, beside(tmp_path), ways) == set()


@pytest.mark.parametrize(
    "ways", sampled([(FEW[:1],), (FEW[1:],), (OTHERS,)], {(FEW[:1],)}.__contains__)
)
async def test_what_it_would_read_is_seen_where_files_are_shown_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ways: Sequence[str]
) -> None:
    place = beside(tmp_path)
    monkeypatch.setattr(jail, "_LIBRARIES", (*jail._LIBRARIES, str(place)))
    async with deno_engine(LIMITS, tmp_path, warm=0) as engine:
        assert await told_by(engine, place, ways) == SEEN & set(ways)
