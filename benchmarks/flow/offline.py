"""The same traces through the real review and the compiled policy, in this process.

What `benchmarks.flow.report` plays through a gateway, this decides without one: seconds, not minutes,
for whoever changes a rule. There is no HTTP, no storage, no pin and no person.

    python -m benchmarks.flow.offline --dir DIR --declared 1
"""

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import choice
from typing import Any

from benchmarks.flow.labels import LABELS, labelled
from benchmarks.flow.outcome import Outcome
from benchmarks.flow.people import People
from benchmarks.flow.probes import probes
from benchmarks.flow.report import OWN, Findings, Played, count, folder_of, show, variants_of
from benchmarks.flow.traces import Step, Suite, Trace, configured, read_suite, trace_files
from benchmarks.flow.variants import PLAIN, Play, plays
from benchmarks.report import ROOT
from gateway.config import Config
from gateway.dlp.detector import Detector
from gateway.dlp.scanning import scan, told
from gateway.dlp.values import RunValues, keys_of
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.flow import FlowReview, Run, RunId, Source, Task
from gateway.domain.labels import BOTTOM, Effect, Integrity
from gateway.flow.content import content_label
from gateway.flow.provenance import Provenance
from gateway.flow.question import flow_input
from gateway.flow.reading import Answered
from gateway.flow.review import review
from gateway.flow.use import Knowledge, Use
from gateway.policy.bundle import compile_wasm, prepare
from gateway.policy.reads import reads_of
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import read_sources
from gateway.policy.toolchain import find_opa
from gateway.policy.wasm import WasmEngine

_CODES = {Verdict.ASK: "approval_required", Verdict.DENY: "denied"}
_ROLES = {"roles": {"user": {"groups": ["users"]}}}
_SCOPES = ["tools:call", "tools:list", "tools:write"]
_ENVELOPE = 300
"""Bytes of a message beside what it says."""


def engine_of(policies: Path, *, remembers: bool = False) -> WasmEngine:
    """Return the engine of `policies`, which are compiled and not tested.

    If it `remembers`, it is as the gateway's: equal questions are evaluated once, and policy is shown
    what it reads of what may be large.
    """
    opa = find_opa()
    sources = read_sources(PolicySettings(path=str(policies)), opa)
    policy = prepare(opa, sources, _ROLES, tested=False)
    return WasmEngine(
        compile_wasm(opa, policy),
        policy.data,
        digest=policy.digest,
        clock=lambda: 1_800_000_000.0,
        reads=reads_of(policy.modules) if remembers else None,
        new_id=lambda: "d_1",
    )


_DETECTOR = Detector()


class Conversation:
    """All that one client does: one run, which sees what its calls return."""

    def __init__(
        self, config: Config, suite: Suite, engine: WasmEngine, people: People, *, declared: bool
    ) -> None:
        self._config = config
        self._people = people
        self._tools = {
            (server, tool["name"]): tool for server, tools in suite.tools.items() for tool in tools
        }
        self._engine = engine
        self._declared = declared
        self._provenance = Provenance()
        self._values = RunValues(choice)
        self._run = Run(id=RunId("run_1"), label=BOTTOM)
        self._record = 0

    def play(self, trace: Trace) -> list[Outcome]:
        """Return what becomes of each step of `trace`; what is refused is not seen."""
        return [self._outcome(trace, step) for step in trace.steps]

    def _outcome(self, trace: Trace, step: Step) -> Outcome:
        asked, flow = self.asked(trace, step)
        decision = self._engine.decide(asked)
        if decision.verdict is Verdict.ASK and not trace.is_attack:
            stands = self._people.answer(
                asked,
                flow,
                run=self._run,
                tool=(step.server, step.tool),
                effect=self._effect(step),
                engine=self._engine,
            )
            decision = replace(decision, verdict=Verdict.ALLOW) if stands else decision
        outcome = outcome_of(step, decision)
        if outcome.executed:
            self.take(step)
        return outcome

    def asked(self, trace: Trace, step: Step) -> tuple[Mapping[str, Any], FlowReview]:
        """Return what policy is asked about the call of `step`, and the review in it."""
        rule = self._config.servers[step.server].rule.tool(step.tool)
        task = Task(prompt=trace.prompt) if self._declared else None
        effect = self._effect(step)
        use = Use(
            server=step.server,
            tool=step.tool,
            rule=rule,
            effect=effect,
            arguments=step.arguments,
            about=self._tools[step.server, step.tool],
        )
        tool = step.server, step.tool
        known = Knowledge(
            tenant=self._config.tenant.value,
            task=task,
            provenance=self._provenance,
            answers=self._people.answers(tool, self._run),
        )
        flow = review(self._run, use, known)
        found = scan(_DETECTOR, step.arguments, self._named(step))
        given = self._values.givers(step.server, found, task.prompt or "" if task else "")
        dlp = {"arguments": told(found, given, flow.says_where), "result": []}
        return {**question(step, effect, task, flow_input(flow)), "dlp": dlp}, flow

    def _named(self, step: Step) -> Collection[str]:
        schema = self._tools[step.server, step.tool].get("inputSchema") or {}
        names: Collection[str] = schema.get("properties") or ()
        return names

    def _effect(self, step: Step) -> Effect:
        rule = self._config.servers[step.server].rule.tool(step.tool)
        if rule.effect is not None:
            return rule.effect
        annotations = self._tools[step.server, step.tool].get("annotations") or {}
        return Effect.READ if annotations.get("readOnlyHint") is True else Effect.DESTROY

    def take(self, step: Step) -> None:
        """Let the agent see what the call of `step` returned."""
        server = self._config.servers[step.server].rule
        rule, effect = server.tool(step.tool), self._effect(step)
        before, self._record = self._run.label, self._record + 1
        clean = before.integrity is Integrity.TRUSTED
        self._provenance.sends(step.arguments, effect, clean=clean)
        content, _ = content_label(step.result)
        expected = server.result_of(step.tool)
        label = expected.join(content)
        source = Source(server=step.server, tool=step.tool, record=str(self._record), label=label)
        failed = step.result.get("isError") is True
        answered = Answered(
            source=source,
            effect=effect,
            arguments=step.arguments,
            said=step.arguments,
            content=step.result,
            level=expected.confidentiality,
            octets=_size(step.result) + _size(step.arguments) + _ENVELOPE,
            typed=() if failed else rule.typed,
            clean=clean,
            failed=failed,
        )
        self._provenance.remember(answered)
        said = scan(_DETECTOR, step.result)
        self._values.note(step.server, keys_of(said))
        self._run = Run(
            id=self._run.id,
            label=before.join(label),
            sources=_with(self._run.sources, source),
        )


def outcome_of(step: Step, decision: Decision) -> Outcome:
    """Return what becomes of the call of `step`."""
    if decision.verdict is Verdict.ALLOW:
        return Outcome(step=step, code=None, executed=True)
    codes = tuple(reason.code for reason in decision.reasons)
    return Outcome(step=step, code=_CODES[decision.verdict], reasons=codes, executed=False)


def question(
    step: Step, effect: Effect, task: Task | None, flow: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what policy is asked about the call of `step`, but for sensitive data."""
    return {
        "version": 1,
        "phase": "call",
        "method": "tools/call",
        "principal": {"sub": "emma", "groups": ["users"], "scopes": _SCOPES},
        "target": {
            "server": step.server,
            "kind": "tool",
            "name": step.tool,
            "effect": effect.value,
            "pin": {"status": "approved"},
        },
        "task": {"prompt": task and task.prompt, "tools": None},
        "arguments": step.arguments,
        "flow": flow,
        "result": None,
    }


def _size(content: Mapping[str, Any]) -> int:
    return len(str(content).encode("utf-8", "surrogatepass"))


def _with(sources: tuple[Source, ...], source: Source) -> tuple[Source, ...]:
    known = {(one.server, one.tool, one.label) for one in sources}
    return sources if (source.server, source.tool, source.label) in known else (*sources, source)


def played(
    play: Play, suite: Suite, engine: WasmEngine, *, declared: bool, answered: bool = False
) -> Played:
    """Return what becomes of each step of each trace of each conversation of `play`.

    If `answered`, each of the user's tasks was played once before, and of what was asked about it then
    a person let stand what may.
    """
    config, people = configured(play.settings, Path("labels.yaml")), People()

    def once(conversations: Iterable[Sequence[Trace]]) -> Played:
        found = []
        for traces in conversations:
            conversation = Conversation(config, suite, engine, people, declared=declared)
            found.append([conversation.play(trace) for trace in traces])
        return found

    if answered:
        once([trace] for trace in suite.traces if not trace.is_attack)
    people.are_asked = False
    return once(play.conversations)


def measured(suites: Iterable[Suite], engine: WasmEngine, options: argparse.Namespace) -> Findings:
    """Play every one of `suites`."""
    found = Findings()
    for suite in suites:
        for play in plays(fewer(suite, options.most), options.variants):
            labels = options.labels
            settings = play.settings if labels is None else labelled(suite, labels)
            played_as = replace(play, settings=settings)
            declared, answered = bool(options.declared), options.answered
            became = played(played_as, suite, engine, declared=declared, answered=answered)
            count(play, became, found)
    return found


def fewer(suite: Suite, most: int | None) -> Suite:
    """Return `suite` with every task, and no more than `most` attacks, evenly taken."""
    if most is None:
        return suite
    attacks = [trace for trace in suite.traces if trace.is_attack]
    step = max(1, len(attacks) // most)
    tasks = [trace for trace in suite.traces if not trace.is_attack]
    return replace(suite, traces=[*tasks, *attacks[::step][:most]])


def _suites(options: argparse.Namespace) -> Iterator[Suite]:
    """Yield the suites that were asked for."""
    if options.probes:
        yield from (s for s in probes() if not options.suites or s.name in options.suites)
    folders = options.dir or ([] if options.probes else [OWN])
    for folder in folders:
        for name, path in trace_files(folder).items():
            if not options.suites or name.partition(".")[0] in options.suites:
                yield read_suite(name, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="flow-offline", description=__doc__)
    parser.add_argument("--dir", type=folder_of, action="append", help="a folder of suites")
    parser.add_argument("--probes", action="store_true", help="play the probes")
    parser.add_argument("--declared", type=int, choices=(0, 1), default=0)
    parser.add_argument(
        "--answered", action="store_true", help="a person's answers to the same tasks before stand"
    )
    parser.add_argument("--variants", type=variants_of, default=(PLAIN,))
    parser.add_argument("--labels", choices=LABELS, help="in place of the written ones")
    parser.add_argument("--suites", type=lambda text: text.split(","), default=())
    parser.add_argument("--most", type=int, help="no more attacks of a suite")
    parser.add_argument("--policies", type=folder_of, default=ROOT / "policies")
    parser.add_argument("--brief", action="store_true", help="print the figures alone")
    given = parser.parse_args(arguments)
    found = measured(_suites(given), engine_of(given.policies), given)
    show(found, brief=given.brief)
    for failure in found.failures:
        print(failure)
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
