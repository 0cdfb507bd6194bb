"""`make oauth-report`: who can sign in, what is refused, and what a token costs."""

import asyncio
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.conformance.suite import SuiteFailed
from benchmarks.oauth import checklist, conformance, upstream, warm
from benchmarks.report import ROOT, print_table, write_report
from tests.oauth.crowd import live
from tests.servers import process
from tests.servers.process import RunningServer, StartFailed
from tests.signin_e2e import node_clients, python_client
from tests.signin_e2e.abroad import AT_A_PROVIDER, AT_A_SERVER, Abroad, external, federated
from tests.signin_e2e.authority import Authority, make_authority
from tests.signin_e2e.browser import Chromium, Person, chromium
from tests.signin_e2e.documents import Documents, documents
from tests.signin_e2e.house import READ, House, egress, house, welcome
from tests.signin_e2e.journeys import Journey, Site
from tests.storage.identity.races import races

FOLDER = ROOT / "var" / "oauth"
Client = Callable[[Site, Person, Path], Coroutine[Any, Any, Journey]]
CLIENTS: Mapping[str, Client] = {
    "python_dcr": python_client.by_registration,
    "python_cimd": python_client.by_document,
    "ts_v1": node_clients.typescript_v1,
    "ts_v2": node_clients.typescript_v2,
    "inspector_dcr": node_clients.inspector_by_registration,
    "inspector_cimd": node_clients.inspector_by_document,
    "mcp_remote": node_clients.mcp_remote,
}
CROWDS = (5, 43)
"""Processes of one client."""
DAYS = 14
RACES = {"code": "authorization code", "refresh": "refresh token"}
ROUNDS = 100
WARM_US = 10.0
WARM_RATIO = 0.2
LIMITS = (
    "the person in front of the browser is a program, and never mistaken",
    "both identity providers are one implementation (npm oidc-provider), on this machine",
    "what Entra, Okta and Keycloak do differently is tested with made-up tokens only",
    "the Inspector asks for more scopes only where its catalog says something of OAuth",
    "SDK v1 refreshes where it lacks a scope; its program hides the refresh token from it then",
    "microseconds are of this machine; the ratio is to an ES256 verification in the same run",
)
_NOTHING = Journey(signed_in=False, refreshed=False, stepped_up=False)


@dataclass(kw_only=True)
class Findings:
    """What was measured, and which promises it does not keep."""

    figures: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def say(self, name: str, found: float, *, promised: float) -> None:
        """Note a figure that has to be exactly what is promised."""
        self.figures[name] = found
        if found != promised:
            self.failures.append(f"{name} is {found:g}, not {promised:g}")

    def stay_below(self, name: str, found: float, *, bound: float) -> None:
        """Note a figure that has to be less than `bound`."""
        self.figures[name] = round(found, 3)
        if found >= bound:
            self.failures.append(f"{name} is {found:.3g}, not below {bound:g}")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What real clients need around them."""

    folder: Path
    notes: RunningServer
    documents: Documents
    authority: Authority
    browser: Chromium

    def room(self, name: str) -> Path:
        """Return a new folder."""
        made = self.folder / name
        made.mkdir()
        return made


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Start the upstream server, the web server for documents and the browser."""
    authority = make_authority(folder)
    with ExitStack() as stack:
        yield Stage(
            folder=folder,
            notes=stack.enter_context(process.notes(folder)),
            documents=stack.enter_context(documents(authority)),
            authority=authority,
            browser=stack.enter_context(chromium(trusted_keys=[authority.pin])),
        )


def sign_in(on: Stage, findings: Findings) -> None:
    """Let every client go the whole way, and the public suite look at the server."""
    with house(
        *(on.room("gateway"), on.notes, on.documents), egress=egress(on.authority)
    ) as running:
        asyncio.run(welcome(running.running, on.browser))
        for name, client in CLIENTS.items():
            made = _journey(running, on, name, client)
            for what, managed in (
                ("signin", made.signed_in),
                ("refresh", made.refreshed),
                ("step_up", made.stepped_up),
            ):
                findings.say(f"clients.{name}.{what}", int(managed), promised=1)
        _conformance(running, on, findings)


def _journey(running: House, on: Stage, name: str, client: Client) -> Journey:
    with running.emma(on.browser) as emma:
        try:
            return asyncio.run(client(running.site, emma, on.room(name)))
        except Exception:  # noqa: BLE001 - whatever stopped it, this client has not managed it
            _explain(f"the client {name}")
            return _NOTHING


def _conformance(running: House, on: Stage, findings: Findings) -> None:
    with running.emma(on.browser) as emma:
        endpoint, folder = running.site.endpoint, on.folder / "authorization"
        try:
            score = asyncio.run(conformance.judge(running.url, endpoint, emma, folder))
        except (SuiteFailed, OSError) as error:
            findings.failures.append(f"the suite did not run to its end: {error}")
            passed = total = 0
        else:
            passed, total = score.passed, score.passed + score.failed
    findings.figures["conformance.authorization_total"] = total
    findings.say("conformance.authorization_passed", passed, promised=total or 1)


def sign_in_abroad(on: Stage, findings: Findings) -> None:
    """Let people sign in at a provider, and at another authorization server."""
    for name, begin, visit in (
        ("federation", federated, AT_A_PROVIDER),
        ("external", external, AT_A_SERVER),
    ):
        managed = False
        try:
            with begin(on.room(name), on.notes, on.documents, on.authority) as abroad:
                managed = asyncio.run(_calls(abroad, on, name, visit))
        except Exception:  # noqa: BLE001 - whatever stopped it, nobody was signed in
            _explain(name)
        findings.say(name, int(managed), promised=1)


async def _calls(abroad: Abroad, on: Stage, name: str, visit: tuple[str, ...]) -> bool:
    folder = on.room(f"{name}-client")
    with on.browser.person("carol", "any") as carol:
        async with python_client.program(abroad.house.site, carol, folder) as program:
            return await program.call(READ) and await program.desk.visits() == (visit,)


def race(folder: Path, rounds: int, findings: Findings) -> None:
    """Let two processes redeem the same code and refresh with the same token, round by round."""
    tally = races(str(folder), rounds=rounds)
    findings.figures["race.rounds"] = rounds
    for name, subject in RACES.items():
        winners = sum(winners * times for winners, times in tally[subject].items())
        findings.say(f"race.{name}_winners", winners, promised=rounds)
    for subject, outcomes in tally.items():
        if set(outcomes) != {1}:
            findings.failures.append(f"not always one winner of the {subject}: {dict(outcomes)}")


def share(folder: Path, findings: Findings) -> None:
    """Let clients of many processes share a refresh token for two weeks, and steal it then."""
    for size in CROWDS:
        room = folder / str(size)
        room.mkdir()
        lived = asyncio.run(live(room, size, DAYS))
        name = f"refresh.{size}"
        findings.figures[f"{name}.days"] = DAYS
        findings.figures[f"{name}.answers"] = lived.told.total()
        findings.say(f"{name}.signed_out", lived.signed_out, promised=0)
        findings.say(f"{name}.thieves_ended", lived.ended, promised=3)


def check(folder: Path, findings: Findings) -> None:
    """Run the tests of the checklist."""
    wanted = checklist.points()
    outcome = checklist.run(wanted, folder)
    held = [point for point in wanted if outcome.holds(point)]
    refused, missed = outcome.refused(wanted)
    findings.figures["checklist.total"] = len(wanted)
    findings.say("checklist.passed", len(held), promised=len(wanted))
    findings.figures["attacks.total"] = refused + missed
    findings.say("attacks.refused", refused, promised=refused + missed)
    findings.failures += [
        f"checklist {point.name}: {point.must}" for point in wanted if point not in held
    ]


def time_the_gate(folder: Path, checks: int, findings: Findings) -> None:
    """Time the check of a token that was seen before."""
    made = warm.measure(folder, checks=checks)
    findings.stay_below("gate.warm_us", made.warm_us, bound=WARM_US)
    findings.stay_below("gate.warm_ratio", made.ratio, bound=WARM_RATIO)
    findings.figures["gate.signature_us"] = round(made.signature_us, 1)


def act_upstream(folder: Path, wanted: Sequence[str], findings: Findings) -> None:
    """Hold the gateway to the suite's scenarios for clients: it is one, towards its upstreams."""
    passed = total = 0
    for name in wanted:
        score = upstream.judge(name, folder)
        passed += score.passed
        total += score.passed + score.failed
        if not score.conforms or not score.passed:
            findings.failures.append(f"as a client: {name} does not pass; see {folder / name}")
    findings.figures["conformance.client_auth_total"] = total
    findings.say("conformance.client_auth_passed", passed, promised=total or 1)


def _explain(what: str) -> None:
    print(f"{what}:", file=sys.stderr)
    traceback.print_exc()


def measure() -> Findings:
    """Measure everything; what programs wrote meanwhile stays in `FOLDER`."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    findings = Findings()
    with stage(FOLDER) as on:
        sign_in(on, findings)
        sign_in_abroad(on, findings)
    act_upstream(FOLDER / "client-auth", upstream.scenarios(), findings)
    check(FOLDER, findings)
    with tempfile.TemporaryDirectory() as folder:
        race(Path(folder), ROUNDS, findings)
    with tempfile.TemporaryDirectory() as folder:
        share(Path(folder), findings)
    with tempfile.TemporaryDirectory() as folder:
        time_the_gate(Path(folder), 20_000, findings)
    return findings


def main() -> int:
    """Print the table, write the report, and return 1 if a promise is not kept."""
    try:
        findings = measure()
    except (StartFailed, SuiteFailed) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    print_table(("figure", "found"), [(name, f"{n:g}") for name, n in findings.figures.items()])
    figures = findings.figures
    summary = (
        f"checklist {figures['checklist.passed']:g}/{figures['checklist.total']:g}, "
        f"attacks refused {figures['attacks.refused']:g}/{figures['attacks.total']:g}, "
        f"warm check {figures['gate.warm_us']:g} us: {len(findings.failures)} failures"
    )
    return write_report("oauth", figures, findings.failures, LIMITS, summary=summary)


if __name__ == "__main__":
    sys.exit(main())
