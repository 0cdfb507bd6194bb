"""`make run`: start everything, say what to do next, and stay until Ctrl-C.

`make run-all` (`--all`) starts four servers more, and programs are run.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests.demo.stage import stage
from tests.running import ALL, Running
from tests.servers.process import ROOT

PORTS = (8080, 8081)
SERVER_PORTS = (9101, 9102)
FOLDER = Path(os.environ.get("DOUANE_DEMO") or ROOT / "var" / "demo")

NEXT = """
Douane runs in front of two example servers.

  the desk    {url}/desk   (first open the link of step 3: it makes you the first person)
  everything  {url}/mcp/everything   (the reference server, legacy revisions)
  notes       {url}/mcp/notes        (a notes server, every revision)
  admin       {admin_url}/readyz, {admin_url}/metrics

Nothing is approved yet, so every call is refused. Try this in another terminal:

  1. see what waits for approval, and read one definition
       {douane} pins list
       {douane} pins show notes read_note
  2. call a tool with an ordinary MCP client: refused; approve; call again
       .venv/bin/python -m tests.demo.client notes read_note '{{"name": "welcome"}}'
       {douane} pins approve notes --all --note "read them"
       .venv/bin/python -m tests.demo.client notes read_note '{{"name": "welcome"}}'
  3. sign in: {first}
     then let a program that nobody registered act for you
       .venv/bin/python -m tests.demo.client --sign-in notes read_note '{{"name": "welcome"}}'
     what you let it do, and how to take it back: {url}/account
  4. ask who called what, and prove that nothing was altered
       {douane} audit query --server notes
       {douane} audit verify

A token by hand (the client's id and secret are in {folder}/agent-notes.json):

  curl -s {url}/oauth/token -d grant_type=client_credentials -d resource={url}/mcp/notes \\
       -d client_id=ID -d client_secret=SECRET

Change a rule in policies/ (data.yaml is the short one) and call again: no restart.
Ctrl-C ends it.
"""

NEXT_AT_ALL = """
There are tickets, filesystem, git and builds as well, which answers late, and one endpoint for all
six: {url}/mcp
The README has five commands for it (One endpoint for all of them).
"""


def main() -> int:
    """Serve until Ctrl-C or SIGTERM, then end everything in order; return the exit status."""
    everything = sys.argv[1:] == ["--all"]
    done = threading.Event()
    give_back = take_terminal()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    try:
        with stage(
            FOLDER,
            policies=ROOT / "policies",
            ports=PORTS,
            server_ports=SERVER_PORTS,
            with_files=everything,
        ) as built:
            for server in ("notes", "everything", ALL):
                built.gateway.client(server)
            _say(built.gateway)
            if everything:
                print(NEXT_AT_ALL.format(url=built.gateway.url), flush=True)
            while not done.wait(0.2):
                if built.gateway.process.poll() is not None:
                    print("the gateway ended by itself; see var/demo/gateway.log", file=sys.stderr)
                    return 1
            print("ending ...", flush=True)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        give_back()
    return 0


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


def _say(gateway: Running) -> None:
    folder = FOLDER.relative_to(ROOT) if FOLDER.is_relative_to(ROOT) else FOLDER
    douane = f".venv/bin/douane --config {folder}/douane.yaml"
    known = [row["user"] for row in gateway.rows("users", "list")]
    first = (
        f"as {', '.join(known)}; for a new password: {douane} users link {known[0]}"
        if known
        else f"be the first person, once, with this link\n       {first_link(gateway)}"
    )
    print(
        NEXT.format(
            url=gateway.url,
            admin_url=gateway.admin_url,
            douane=douane,
            folder=folder,
            first=first,
        ),
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
