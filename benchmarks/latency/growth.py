"""How a call's cost grows: `python -m benchmarks.latency.growth`.

One gateway for each number of approved tools, all of one server, and one for each number of people, whose
tokens are used in turn: another authorization server's, signed here. The last tool is never called, only the
first; what the others cost a call is the question. All are called one after the other, round by round.
"""

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from joserfc import jwt
from joserfc.jwk import ECKey

from benchmarks.latency.figures import correctness, row
from benchmarks.latency.load import Window, call
from benchmarks.latency.targets import NO_LIMITS, SERVER, Target, echo_server, server_at
from benchmarks.report import ROOT, print_table
from tests.running import EVERY_SCOPE, Running, endpoint_of, running_gateway

FOLDER = ROOT / "var" / "growth"
TOOLS = (1, 100, 5_000)
PEOPLE = (10, 10_000)
_LIFETIME_S = 6 * 3600
_PATIENCE_S = 600
_LOOK_AGAIN_S = 1
_AUDIT = {"durability": "process"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int = 5
    seconds: int = 3
    connections: tuple[int, ...] = (1, 16)
    tools: tuple[int, ...] = TOOLS
    people: tuple[int, ...] = PEOPLE


class Issuer:
    """An authorization server that publishes its key, and signs whatever it is told to."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}"
        self._key = ECKey.generate_key("P-256", {"kid": "growth", "use": "sig", "alg": "ES256"})

    @property
    def documents(self) -> dict[str, object]:
        return {
            "/.well-known/oauth-authorization-server": {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/jwks",
                "token_endpoint": f"{self.url}/token",
                "authorization_endpoint": f"{self.url}/authorize",
                "response_types_supported": ["code"],
            },
            "/jwks": {"keys": [self._key.as_dict(private=False)]},
        }

    def token(self, number: int, audience: str) -> str:
        """Return an access token of one of its people (RFC 9068)."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": f"person-{number}",
            "aud": audience,
            "client_id": "assistant",
            "scope": " ".join(EVERY_SCOPE),
            "jti": f"token-{number}",
            "iat": now,
            "exp": now + _LIFETIME_S,
        }
        return jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "growth"}, claims, self._key)


@contextmanager
def issuer() -> Iterator[Issuer]:
    """Run an authorization server until the context ends."""

    class Documents(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = made.documents.get(self.path)
            body = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Documents) as server:
        made = Issuer(server)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def grown(folder: Path, plan: Plan) -> Iterator[list[Target]]:
    """Start a gateway for each number of tools and of people, until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        port, _ = stack.enter_context(echo_server(folder))
        url = f"http://127.0.0.1:{port}/mcp"
        yield [
            *(stack.enter_context(_with_tools(folder, url, count)) for count in plan.tools),
            *(stack.enter_context(_with_people(folder, url, count)) for count in plan.people),
        ]


@contextmanager
def _with_tools(folder: Path, url: str, count: int) -> Iterator[Target]:
    name = f"tools-{count}"
    server = server_at(f"{url}/t{count}")
    with running_gateway(
        folder / name, {SERVER: server}, audit=_AUDIT, limits=NO_LIMITS
    ) as gateway:
        _wait_for(gateway, count)
        gateway.approve_all(SERVER)
        yield Target(
            name=name,
            url=gateway.url + endpoint_of(SERVER),
            pid=gateway.process.pid,
            tokens=lambda: (gateway.token(SERVER),),
            gateway=gateway,
        )


def _wait_for(gateway: Running, tools: int) -> None:
    """Return once so many are known: each that is new is a record."""
    deadline = time.monotonic() + _PATIENCE_S
    while len(gateway.rows("pins", "list", "--server", SERVER)) < tools:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{tools} tools are not known within {_PATIENCE_S} seconds")
        time.sleep(_LOOK_AGAIN_S)


@contextmanager
def _with_people(folder: Path, url: str, count: int) -> Iterator[Target]:
    name = f"people-{count}"
    with (
        issuer() as elsewhere,
        running_gateway(
            folder / name,
            {SERVER: server_at(url)},
            audit=_AUDIT,
            limits=NO_LIMITS,
            egress={"allow": ["127.0.0.0/8"]},
            auth={
                "mode": "external",
                "external": {
                    "issuer": elsewhere.url,
                    "algorithm": "ES256",
                    "everybody": ["users"],
                },
            },
        ) as gateway,
    ):
        gateway.approve_all(SERVER)
        endpoint = gateway.url + endpoint_of(SERVER)
        tokens = [elsewhere.token(number, endpoint) for number in range(count)]
        yield Target(
            name=name,
            url=endpoint,
            pid=gateway.process.pid,
            tokens=lambda: tokens,
            gateway=gateway,
        )


def measure(plan: Plan, folder: Path) -> dict[tuple[str, int], list[Window]]:
    """Call each as `plan` says; the windows by target and number of connections."""
    found: dict[tuple[str, int], list[Window]] = {}
    with grown(folder, plan) as ready:
        for target in ready:
            call(target, max(plan.connections), plan.seconds)
        for done in range(plan.rounds):
            first = done % len(ready)
            for connections in plan.connections:
                for target in ready[first:] + ready[:first]:
                    window = call(target, connections, plan.seconds)
                    found.setdefault((target.name, connections), []).append(window)
    return found


def report(found: dict[tuple[str, int], list[Window]]) -> int:
    """Print a row for each, and return 1 if an answer was wrong."""
    rows = [row(name, connections, windows) for (name, connections), windows in found.items()]
    told: list[Sequence[object]] = [
        (
            *(one.name, one.connections, f"{one.calls_per_s:.0f}", f"{one.p50_us:.0f}"),
            *(f"{one.p99_us:.0f}", f"{one.cpu_us_per_call:.0f}"),
        )
        for one in sorted(rows, key=lambda one: one.connections)
    ]
    print_table(("what", "connections", "calls/s", "p50 us", "p99 us", "CPU us/call"), told)
    wrong = correctness(rows)
    print("\n".join(f"FAILED: {one}" for one in wrong))
    return 1 if wrong else 0


def main() -> int:
    """Measure as the command line says, and print it."""
    plan = Plan()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=plan.rounds)
    parser.add_argument("--seconds", type=int, default=plan.seconds, help="of one window")
    parser.add_argument("--tools", type=int, nargs="*", default=plan.tools)
    parser.add_argument("--people", type=int, nargs="*", default=plan.people)
    given = parser.parse_args()
    plan = Plan(
        rounds=given.rounds,
        seconds=given.seconds,
        tools=tuple(given.tools),
        people=tuple(given.people),
    )
    shutil.rmtree(FOLDER, ignore_errors=True)
    found = measure(plan, FOLDER)
    shutil.rmtree(FOLDER)
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
