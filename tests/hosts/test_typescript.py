"""The package for TypeScript keeps what the one for Python does, and its types are types."""

import subprocess
from pathlib import Path

import deno  # type: ignore[import-untyped]

from tests.e2e.test_node_clients import node
from tests.servers.process import ROOT

TYPES = ROOT / "hosts" / "typescript" / "index.d.ts"
USE = """\
import {{ conversation, declaring, task }} from "{types}";
const send: typeof fetch = declaring() as typeof fetch;
const told: string = await task("words", async () => "done", {{ tools: ["mail/send"] }});
await conversation(async (talk) => talk.says(told));
// @ts-expect-error: words come first
await task(async () => 1);
void send;
"""


def test_what_it_puts_into_requests() -> None:
    done = subprocess.run(
        [node(), "--test", str(Path(__file__).with_name("declaring.mjs"))],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout


def test_its_types_say_how_it_is_used(tmp_path: Path) -> None:
    program = tmp_path / "use.ts"
    program.write_text(USE.format(types=TYPES.as_uri()))
    done = subprocess.run(
        [deno.find_deno_bin(), "check", "--no-remote", "--no-config", str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"DENO_DIR": str(tmp_path / "deno"), "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
