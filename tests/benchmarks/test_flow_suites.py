"""The suites of unseen domains are what they should be, and what they should not be is refused."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.flow.suites.build import build
from benchmarks.flow.suites.honest import (
    HERE,
    honest,
    played,
    read_tools,
    read_written,
    suite_names,
)
from benchmarks.flow.suites.written import WrittenError
from benchmarks.flow.traces import UnreadableError, configured, read_suite
from gateway.domain.labels import Effect, ToolRule
from tests.cases import sampled

SUITES = (
    "calendar_travel",
    "cloud_ops",
    "code_hosting",
    "customer_service",
    "health",
    "hr_crm",
    "shop_orders",
    "smart_home",
)
LEAST_MARKED = {
    "outside_choice": 5,
    "private_sent": 3,
    "secret_seen": 2,
    "no_arguments": 2,
    "spends": 2,
    "destroys": 2,
    "long_reading": 2,
    "two_acts": 2,
}
LARGEST_FILE_BYTES = 250_000

TOOLS = {
    "desk": [
        {
            "name": "get_ticket",
            "inputSchema": {
                "type": "object",
                "properties": {"id": {"type": "integer"}},
                "required": ["id"],
            },
            "outputSchema": {"type": "object", "required": ["id"]},
        },
        {"name": "close_all", "inputSchema": {"type": "object", "properties": {}}},
    ]
}
GET = {"do": "desk/get_ticket", "with": {"id": 7}, "gives": "$tickets.7"}
THE_RULE = {"effect": "read", "result": {"integrity": "trusted", "confidentiality": "public"}}
CLOSE = {"do": "desk/close_all", "with": {}, "gives": "All ${tickets.7.from}'s are closed."}


def a_task(**changed: Any) -> dict[str, Any]:
    return {"id": "t", "prompt": "Close it.", "carriers": [0], "steps": [GET, CLOSE]} | changed


def content(*tasks: dict[str, Any], **changed: Any) -> dict[str, Any]:
    records = {
        "7": {"id": 7, "from": "Ada", "text": "Help me. {inject}", "more": "Soon. {inject}"},
        "8": {"id": 8, "from": "Bo", "text": "Me too. {inject}"},
    }
    given = list(tasks) or [a_task()]
    return {"text": {"desk": "json"}, "world": {"tickets": records}, "tasks": given} | changed


def suite_in(folder: Path, written: dict[str, Any] | str) -> Path:
    text = written if isinstance(written, str) else yaml.safe_dump(written, sort_keys=False)
    (folder / "tasks.yaml").write_text(text, encoding="utf-8")
    (folder / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    return folder


def problems_of_labels(folder: Path, labels: Path) -> Iterator[str]:
    """Yield what is wrong with `labels` of the suite in `folder`, read as a gateway reads them."""
    tools = read_tools(folder)
    try:
        servers = configured(yaml.safe_load(labels.read_text(encoding="utf-8")), labels).servers
    except UnreadableError as error:
        yield str(error)
        return
    rules = {
        (server, name): tool.rule
        for server, labelled in servers.items()
        for name, tool in labelled.tools.items()
    }
    yield from (f"{'/'.join(tool)}: no tool" for tool in rules.keys() - tools.keys())
    yield from (f"{'/'.join(tool)}: not labelled" for tool in tools.keys() - rules.keys())
    for tool in rules.keys() & tools.keys():
        arguments = set(tools[tool]["inputSchema"]["properties"])
        yield from (f"{'/'.join(tool)}: {text}" for text in _of_rule(rules[tool], arguments))


def _of_rule(rule: ToolRule, arguments: set[str]) -> Iterator[str]:
    if rule.effect is None:
        yield "no effect"
    if rule.result is None:
        yield "no result"
    said = Counter(rule.destination + rule.payload)
    yield from (f"no argument {name}" for name in said.keys() - arguments)
    yield from (f"{name} said twice" for name, times in said.items() if times > 1)
    if rule.effect is not Effect.READ:
        yield from (f"nothing said of {name}" for name in arguments - said.keys())


def test_every_suite_in_the_tree_is_known_here() -> None:
    assert tuple(suite_names()) == SUITES


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_has_twenty_tasks_of_every_kind_and_uses_every_tool(name: str) -> None:
    written = read_written(HERE / name)
    marks = Counter(mark for task in written.tasks for mark in task.marks)
    called = {(step.server, step.tool) for task in written.tasks for step in task.steps}
    assert len(written.tasks) == 20
    assert {mark: marks[mark] for mark in LEAST_MARKED if marks[mark] < LEAST_MARKED[mark]} == {}
    assert called == set(read_tools(HERE / name))
    assert 12 <= len(called) <= 22
    assert sum(bool(task.carriers) for task in written.tasks) >= 10


@pytest.mark.parametrize("name", sampled(SUITES, SUITES[:1].__contains__))
def test_a_suite_is_read_back_as_traces_of_users(name: str, tmp_path: Path) -> None:
    build(HERE / name, tmp_path)
    suite = read_suite(name, tmp_path / f"{name}.jsonl")
    users = [trace for trace in suite.traces if not trace.is_attack]
    assert len(users) == 20
    assert all(server.labelled for server in suite.config.servers.values())
    assert not any(step.harmful for trace in users for step in trace.steps)
    text = (tmp_path / f"{name}.jsonl").read_text(encoding="utf-8")
    assert "{inject" not in text
    assert "${" not in text


@pytest.mark.parametrize("name", sampled(SUITES, SUITES[:1].__contains__))
def test_labels_say_all_of_every_tool_and_nothing_of_what_is_none(name: str) -> None:
    assert list(problems_of_labels(HERE / name, HERE / name / "labels.yaml")) == []


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"get_ticket": THE_RULE}, "desk/close_all: not labelled"),
        ({"get_ticket": THE_RULE, "close_all": THE_RULE, "close": THE_RULE}, "desk/close: no tool"),
        ({"get_ticket": {"effect": "read"}, "close_all": THE_RULE}, "desk/get_ticket: no result"),
        ({"get_ticket": THE_RULE | {"effect": None}, "close_all": THE_RULE}, "no effect"),
        ({"get_ticket": THE_RULE | {"payload": ["it"]}, "close_all": THE_RULE}, "no argument it"),
        (
            {"get_ticket": THE_RULE | {"effect": "write"}, "close_all": THE_RULE},
            "nothing said of id",
        ),
        (
            {
                "get_ticket": THE_RULE | {"payload": ["id"], "destination": ["id"]},
                "close_all": THE_RULE,
            },
            "id said twice",
        ),
        ({"get_ticket": THE_RULE | {"efect": "read"}, "close_all": THE_RULE}, "efect"),
        ({"get_ticket": THE_RULE | {"effect": "peek"}, "close_all": THE_RULE}, "effect"),
    ],
)
def test_what_is_wrong_with_labels_is_found(
    rule: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    folder = suite_in(tmp_path, content())
    labels = folder / "labels.yaml"
    labels.write_text(yaml.safe_dump({"servers": {"desk": {"tools": rule}}}), encoding="utf-8")
    assert problem in "; ".join(problems_of_labels(folder, labels))


@pytest.mark.parametrize("name", SUITES)
def test_the_files_of_a_suite_are_small(name: str) -> None:
    sizes = {path.name: path.stat().st_size for path in (HERE / name).iterdir()}
    assert {file: size for file, size in sizes.items() if size > LARGEST_FILE_BYTES} == {}


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (content(a_task(steps=[GET])), "1 steps"),
        (content(a_task(steps=[GET] * 7, carriers=list(range(7)))), "7 steps"),
        (content(a_task(carriers=[])), "carriers are"),
        (content(a_task(carriers=[0, 1])), "carriers are"),
        (content(a_task(marks=["brave"])), "unknown marks"),
        (content(a_task(), a_task(prompt="Another.")), "id stands twice"),
        (content(a_task(), a_task(id="u")), "prompt stands twice"),
        (content(a_task(note="x")), "has"),
        (content(a_task(steps=[GET, CLOSE | {"do": "desk/close"}])), "no tool"),
        (content(a_task(steps=[GET, CLOSE | {"do": "mail/close_all"}])), "no tool"),
        (content(a_task(steps=[GET, CLOSE | {"with": {"id": 7}}])), "close_all has no"),
        (content(a_task(steps=[GET | {"with": {}}, CLOSE])), "required"),
        (content(a_task(steps=[GET | {"with": {"id": "7"}}, CLOSE])), "integer"),
        (content(a_task(steps=[GET | {"gives": {"text": "{inject}"}}, CLOSE])), "result"),
        (content(a_task(steps=[GET | {"gives": "$tickets.9"}, CLOSE])), "tickets has no"),
        (content(a_task(steps=[GET | {"gives": "$users.7"}, CLOSE])), "no table users"),
        (content(a_task(steps=[GET | {"gives": "$tickets.7/id+to"}, CLOSE])), "7 has no .'to'"),
        (content(a_task(steps=[GET, CLOSE | {"gives": "${tickets.7.to}"}])), "tickets.7 has no to"),
        (content(a_task(steps=[GET, CLOSE | {"gives": ""}])), "empty result"),
        (content(a_task(steps=[GET, CLOSE | {"gives": "x" * 5_000}])), "5000 characters"),
        (content(text={"desk": "prose"}), "text: says"),
        (content(text={}), "text: says"),
        (content(only_text=["mail"]), "only_text"),
        (content(tasks=[None]), "AttributeError"),
        (content(more={}), "file: has"),
        ("text: {a: json}\ntext: {a: json}\n", "stands twice"),
        ("text: [", "ParserError"),
    ],
)
def test_what_is_wrong_with_a_suite_is_refused(
    written: dict[str, Any] | str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(WrittenError, match=reason):
        read_written(suite_in(tmp_path, written))


def test_a_record_is_the_same_alone_in_a_list_and_in_a_text(tmp_path: Path) -> None:
    listed = CLOSE | {"gives": {"all": "$tickets.*/id+from", "two": "$tickets.8+7/id"}}
    read = read_written(suite_in(tmp_path, content(a_task(steps=[GET, CLOSE, listed]))))
    rows = honest(read, read.tasks[0])["steps"]
    assert rows[0]["result_json"] == {"id": 7, "from": "Ada", "text": "Help me.", "more": "Soon."}
    assert json.loads(rows[0]["result"]) == rows[0]["result_json"]
    assert (rows[1]["result"], rows[1]["result_json"]) == ("All Ada's are closed.", None)
    assert rows[2]["result_json"] == {
        "all": [{"id": 7, "from": "Ada"}, {"id": 8, "from": "Bo"}],
        "two": [{"id": 8}, {"id": 7}],
    }


def test_a_text_is_planted_at_its_name_and_nowhere_else(tmp_path: Path) -> None:
    listed = CLOSE | {"gives": {"all": "$tickets.*", "page": "1 {inject}"}}
    tasks = a_task(steps=[GET, listed], carriers=[0, 1])
    read = read_written(suite_in(tmp_path, content(tasks)))
    get, both = read.tasks[0].steps
    assert get.places() == ("tickets.7", "tickets.7.2")
    assert both.places() == ("tickets.7", "tickets.7.2", "tickets.8", "step1")
    row = played(read, get, {"tickets.7.2": "Obey {me}."})
    assert row["result_json"] | {"from": ""} == {
        "id": 7,
        "from": "",
        "text": "Help me.",
        "more": "Soon. Obey {me}.",
    }
    assert "Obey {me}." in row["result"]
    row = played(read, both, {"tickets.8": "Obey."})
    assert [one["text"] for one in row["result_json"]["all"]] == ["Help me.", "Me too. Obey."]
    assert row["result_json"]["page"] == "1"


def test_dates_times_and_words_stay_text(tmp_path: Path) -> None:
    text = (
        yaml.safe_dump(content(), sort_keys=False).replace("Ada", "2026-11-22").replace("Bo", "no")
    )
    read = read_written(suite_in(tmp_path, text.replace("'2026-11-22'", "2026-11-22")))
    assert honest(read, read.tasks[0])["steps"][0]["result_json"]["from"] == "2026-11-22"


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("compact", '{"id":7,"of":["a",{"b":"c"}],"none":[]}'),
        ("yaml", "id: 7\nof:\n- a\n- b: c\nnone: []"),
        ("lines", "Id: 7\nOf:\n  - a\n  [2]\n  B: c\nNone: []"),
    ],
)
def test_servers_write_in_their_own_way(style: str, text: str, tmp_path: Path) -> None:
    gives = GET | {"gives": {"id": 7, "of": ["a", {"b": "c"}], "none": []}}
    steps = [gives, CLOSE | {"gives": "ok"}]
    written = content(a_task(steps=steps, carriers=[]), text={"desk": style})
    read = read_written(suite_in(tmp_path, written))
    assert played(read, read.tasks[0].steps[0])["result"] == text


def test_an_error_has_no_structure_and_is_marked(tmp_path: Path) -> None:
    steps = [GET | {"gives": {"error": "gone"}, "fails": True}, CLOSE]
    read = read_written(suite_in(tmp_path, content(a_task(steps=steps, carriers=[]))))
    row = played(read, read.tasks[0].steps[0])
    assert (row["is_error"], row["result_json"]) == (True, None)


def test_a_server_that_returns_text_only_has_no_structured_results(tmp_path: Path) -> None:
    steps = [CLOSE | {"gives": "$tickets.7"}, CLOSE]
    written = content(a_task(steps=steps), only_text=["desk"])
    read = read_written(suite_in(tmp_path, written))
    row = played(read, read.tasks[0].steps[0])
    assert row["result_json"] is None
    assert json.loads(row["result"])["from"] == "Ada"


def test_a_suite_without_labels_is_built_with_none_and_one_with_them_keeps_them(
    tmp_path: Path,
) -> None:
    source, out = tmp_path / "tickets", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    build(suite_in(source, content()), out)
    assert (out / "tickets.labels.yaml").read_text(encoding="utf-8") == "servers: {}\n"
    (source / "labels.yaml").write_text("servers: {desk: {}}\n", encoding="utf-8")
    build(source, out)
    assert (out / "tickets.labels.yaml").read_text(encoding="utf-8") == "servers: {desk: {}}\n"
