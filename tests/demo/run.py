"""`make run`: start everything, say what to do next, and stay until Ctrl-C.

`make run-all` (`--all`) starts four servers more, and programs are run. `make run-replicas`
(`--replicas 3`) starts three gateways that share a PostgreSQL, and nginx in front of them.
"""

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.demo.stage import Stage, Together, stage
from tests.running import ALL, Running
from tests.servers.process import ROOT, StartFailed

PORTS = (8080, 8081)
SERVER_PORTS = (9101, 9102)
FOLDER = Path(os.environ.get("DOUANE_DEMO") or ROOT / "var" / "demo")
SHARING = Path(os.environ.get("DOUANE_DEMO") or ROOT / "var" / "replicas")
"""Where gateways are that share a database; clients are told by `DOUANE_DEMO`."""

NEXT = """
Douane runs in front of two example servers.

  the desk    {url}/desk   (first open the link of step 4: it makes you the first person)
  everything  {url}/mcp/everything   (the reference server, legacy revisions)
  notes       {url}/mcp/notes        (a notes server, every revision)
  admin       {admin_url}/readyz, {admin_url}/metrics

Nothing is approved yet, so every call is refused. Try this in another terminal; the README
has the same steps with more to each (The first hour):

  1. see what waits for approval
       {douane} pins list
  2. call a tool with an ordinary MCP client: refused
       {client} notes read_note '{{"name": "welcome"}}'
  3. read the definitions, approve them, call again
       {douane} pins review notes --all
       {douane} pins approve notes --all --note "read them"
       {client} notes read_note '{{"name": "welcome"}}'
  4. sign in: {first}
     then let a program that nobody registered act for you
       {client} --sign-in notes read_note '{{"name": "welcome"}}'
     what you let it do, and how to take it back: {url}/account
  5. ask who called what, and prove that nothing was altered
       {douane} audit query --server notes
       {douane} audit verify

A token by hand (the client's id and secret are in {folder}/agent-notes.json):

  curl -s {url}/oauth/token -d grant_type=client_credentials -d resource={url}/mcp/notes \\
       -d client_id=ID -d client_secret=SECRET

Change a rule in policies/ and call again: no restart. docs/policy.md has rules to begin with.
Ctrl-C ends it.
"""

NEXT_AT_ALL = """
There are tickets, filesystem, git and builds as well, which answers late, and one endpoint for all
six: {url}/mcp
The README has five commands for it (One endpoint for all of them).
"""

NEXT_TOGETHER = """
{number} gateways share one PostgreSQL; nginx, in front of them, gives each client to one of them.

{listed}

Lose one, and call again; the others carry it. Then let it come back:

  kill -9 {lost.process.pid}
  {client} notes read_note '{{"name": "welcome"}}'
  tail -n 3 {folder}/carried.log
  .venv/bin/douane --config {folder}/{lost.folder.name}/douane.yaml serve

docs/replicas.md (Try it) goes through it step by step.
"""


def main() -> int:
    """Serve until Ctrl-C or SIGTERM, then end everything in order; return the exit status."""
    given = _given()
    done = threading.Event()
    give_back = take_terminal()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    try:
        with _started(given) as built:
            for server in ("notes", "everything", ALL):
                built.gateway.client(server)
            _say(built.gateway)
            if given.all:
                print(NEXT_AT_ALL.format(url=built.gateway.url), flush=True)
            status = _stay(done, _gateways(built.gateway))
            print("ending ...", flush=True)
    except (RuntimeError, StartFailed) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        give_back()
    return status


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.demo.run")
    parser.add_argument("--all", action="store_true", help="four servers more")
    parser.add_argument("--replicas", type=int, default=0, choices=range(2, 10), metavar="2-9")
    return parser.parse_args()


@contextmanager
def _started(given: argparse.Namespace) -> Iterator[Stage]:
    set_up = partial(
        stage,
        policies=ROOT / "policies",
        ports=PORTS,
        server_ports=SERVER_PORTS,
        with_files=given.all,
    )
    if not given.replicas:
        with set_up(FOLDER) as built:
            yield built
        return
    # Whoever imports this module to call something needs no database.
    from tests.demo.replicas import database, together

    with database() as address:
        gateways = partial(together, number=given.replicas, address=address)
        with set_up(SHARING, gateway=gateways) as built:
            yield built


def _gateways(running: Running) -> Sequence[Running]:
    return running.gateways if isinstance(running, Together) else (running,)


def _stay(done: threading.Event, gateways: Sequence[Running]) -> int:
    """Stay until it is `done`, or no gateway is left; say of each that ends by itself."""
    left = list(gateways)
    while left:
        if done.wait(0.2):
            return 0
        for one in [one for one in left if one.process.poll() is not None]:
            left.remove(one)
            where = f"{_shown(one.folder)}/gateway.log"
            print(f"{one.folder.name} has ended by itself; see {where}", file=sys.stderr)
    return 1


def take_terminal() -> Callable[[], None]:
    """Become the terminal's foreground process group, and return what undoes it.

    Ctrl-C then ends this program, which exits with 0, and does not interrupt the make around it.
    """
    if not sys.stdin.isatty():
        return lambda: None
    terminal, before = sys.stdin.fileno(), os.tcgetpgrp(sys.stdin.fileno())
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpgrp())
    return lambda: os.tcsetpgrp(terminal, before)


def first_link(gateway: Running) -> str:
    """Return the link that the gateway has printed for its first person."""
    *_, link = re.findall(r"http\S+/setup\?link=[\w-]+", gateway.shown)
    return str(link)


def _shown(folder: Path) -> Path:
    return folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder


def _say(gateway: Running) -> None:
    folder = _shown(gateway.folder)
    douane = f".venv/bin/douane --config {folder}/douane.yaml"
    known = [row["user"] for row in gateway.rows("users", "list")]
    first = (
        f"as {', '.join(known)}; for a new password: {douane} users link {known[0]}"
        if known
        else f"be the first person, once, with this link\n       {first_link(gateway)}"
    )
    told = {
        "url": gateway.url,
        "admin_url": gateway.admin_url,
        "douane": douane,
        "client": ".venv/bin/python -m tests.demo.client",
        "folder": folder,
        "first": first,
    }
    if isinstance(gateway, Together):
        told["client"] = f"DOUANE_DEMO={folder} {told['client']}"
    print(NEXT.format(**told), flush=True)
    if isinstance(gateway, Together):
        listed = "\n".join(map(_told_of, gateway.gateways))
        told |= {"number": len(gateway.gateways), "listed": listed, "lost": gateway.gateways[-1]}
        print(NEXT_TOGETHER.format(**told), flush=True)


def _told_of(one: Running) -> str:
    return f"  {one.folder.name}  {one.url}, {one.admin_url}/readyz, process {one.process.pid}"


if __name__ == "__main__":
    sys.exit(main())
