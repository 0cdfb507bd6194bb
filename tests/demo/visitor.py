"""A person with no browser at hand: `python -m tests.demo.visitor SERVER TOOL ARGUMENTS`.

Adds the person `visitor`, who chooses a password by their link, signs in, and lets a program that
nobody registered call one tool. A program fills in their forms.
"""

import asyncio
import json
import secrets
import subprocess
import sys
from typing import Any

from tests.demo.client import shown
from tests.demo.run import FOLDER, PORTS
from tests.demo.sign_in import Person, call_as
from tests.running import DOUANE

NAME = "visitor"


def setup_link() -> str:
    """Return a link with which the visitor chooses a password, adding them if need be."""
    known = any(row["user"] == NAME for row in _users("list"))
    (row,) = _users("link" if known else "add", NAME)
    return str(row["setup_url"])


def _users(*words: str) -> list[dict[str, Any]]:
    command = (DOUANE, "--config", str(FOLDER / "douane.yaml"), "users", *words, "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


async def visit(server: str, tool: str, arguments: dict[str, object]) -> int:
    """Sign in and call; return 1 if the result is an error."""
    url = f"http://127.0.0.1:{PORTS[0]}"
    visitor = Person(gateway=url, name=NAME, password=secrets.token_urlsafe(16))
    await visitor.choose_password(setup_link())
    status = shown(await call_as(visitor, f"{url}/mcp/{server}", tool, arguments))
    for page in visitor.consented:
        print(f"the visitor was asked: {page.text}", file=sys.stderr)
    return status


def main() -> int:
    """Print the result; return 1 if it is an error."""
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    arguments = json.loads(sys.argv[3]) if len(sys.argv) == 4 else {}
    return asyncio.run(visit(sys.argv[1], sys.argv[2], arguments))


if __name__ == "__main__":
    sys.exit(main())
