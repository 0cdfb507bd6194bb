"""The runner of workflows: a scripted model over loopback, and a real gateway."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.workflows import report
from benchmarks.workflows.model import Model, ModelFailed
from benchmarks.workflows.play import Played, offered, play

TOOLS = [
    {"id": "w/now", "server": "Weather Desk", "name": "now", "description": "The weather now."},
    {"id": "w/later", "server": "Weather Desk", "name": "later", "description": "A forecast."},
    {"id": "m/send", "server": "mail", "name": "send", "description": "Sends mail."},
]
QUERIES = [
    {"id": "1", "query": "mail the weather", "kind": "task", "groups": [["w/now"], ["m/send"]]},
    {"id": "2", "query": "weather", "kind": "step", "groups": [["w/now"]]},
]


def calls(*wanted: tuple[str, Any]) -> dict[str, Any]:
    """Return what a model says that wants tools called."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for number, (name, given) in enumerate(wanted)
        ],
    }


DONE = {"role": "assistant", "content": "It is done."}


class Scripted:
    """A model that says what it was told to, in order, and remembers what it was asked."""

    def __init__(self, *said: dict[str, Any]) -> None:
        self._said = iter(said)
        self.asked: list[tuple[list[Any], list[Any]]] = []

    def answer(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        self.asked.append((list(messages), list(tools)))
        return next(self._said)


class Desk:
    """An endpoint that answers every call alike, but for those that fail."""

    def tools(self) -> list[dict[str, Any]]:
        return [{"name": "search_tools", "inputSchema": {"type": "object"}}]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert method == "tools/call"
        if params["name"] == "broken":
            raise RuntimeError("it is broken")
        fails = params["name"] == "refused"
        return {"content": [{"type": "text", "text": f"did {params['name']}"}], "isError": fails}


def test_what_a_model_wants_called_is_called_and_told_back_to_it() -> None:
    model = Scripted(
        calls(("search_tools", {"query": "x"})),
        calls(("w__now", {}), ("call_tool", {"name": "m__send", "arguments": {}})),
        DONE,
    )
    played = play("mail the weather", model, Desk())
    assert played == Played(called=["w__now", "m__send"], searches=1, turns=3, finished=True)
    messages, tools = model.asked[-1]
    assert [tool["function"]["name"] for tool in tools] == ["search_tools"]
    told = [(one.get("tool_call_id"), one["content"]) for one in messages if one["role"] == "tool"]
    assert told == [("c0", "did search_tools"), ("c0", "did w__now"), ("c1", "did call_tool")]
    assert messages[1] == {"role": "user", "content": "mail the weather"}


@pytest.mark.parametrize(
    "wanted", [("refused", {}), ("broken", {}), ("w__now", "{"), ("w__now", "[]")]
)
def test_what_fails_counts_as_failed_and_the_model_goes_on(wanted: tuple[str, Any]) -> None:
    played = play("x", Scripted(calls(wanted), DONE), Desk())
    assert played == Played(failed=1, turns=2, finished=True)


def test_a_model_that_never_ends_is_ended() -> None:
    again = [calls(("search_tools", {"query": "x"}))] * 3
    assert play("x", Scripted(*again), Desk(), most_turns=3) == Played(searches=3, turns=3)


def test_a_need_is_met_by_any_of_its_tools() -> None:
    played = Played(called=["a__x", "b__y"])
    assert played.met([["a__x", "a__z"], ["c__z"]]) == 0.5


def test_a_definition_is_offered_with_its_schema() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    assert offered({"name": "a", "description": "b", "inputSchema": schema}) == {
        "type": "function",
        "function": {"name": "a", "description": "b", "parameters": schema},
    }


class Endpoint(ThreadingHTTPServer):
    """Chat completions on loopback: answers in order, each with a count of tokens."""

    answers: list[Any]
    seen: list[tuple[str, dict[str, str], Any]]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Endpoint)
        self.server.seen.append((self.path, dict(self.headers), body))
        answer = self.server.answers.pop(0)
        content = (
            answer
            if isinstance(answer, bytes)
            else json.dumps(
                {
                    "choices": [{"message": answer}],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
                }
            ).encode()
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(("127.0.0.1", 0), Handler) as server:
        server.answers, server.seen = [], []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def url_of(endpoint: Endpoint) -> str:
    return f"http://127.0.0.1:{endpoint.server_address[1]}/v1"


def test_a_model_is_asked_as_chat_completions_are(endpoint: Endpoint) -> None:
    endpoint.answers = [DONE]
    model = Model(url=url_of(endpoint), name="small", key="s3cret")
    assert model.answer([{"role": "user", "content": "x"}], []) == DONE
    ((path, headers, body),) = endpoint.seen
    assert (path, headers["Authorization"]) == ("/v1/chat/completions", "Bearer s3cret")
    assert (body["model"], body["messages"]) == ("small", [{"role": "user", "content": "x"}])
    assert (model.tokens_in, model.tokens_out) == (10, 2)
    assert "s3cret" not in repr(model)


@pytest.mark.parametrize(
    "answer", [b"no json", b"{}", b'{"choices": []}', b"[]", b'{"choices": [{"message": null}]}']
)
def test_an_answer_that_is_none_is_a_failure(endpoint: Endpoint, answer: bytes) -> None:
    endpoint.answers = [answer]
    with pytest.raises(ModelFailed):
        Model(url=url_of(endpoint), name="small").answer([], [])


@pytest.mark.parametrize(
    "environment", [{}, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, {"OPENAI_MODEL": "small"}]
)
def test_without_a_model_it_is_skipped_with_a_sentence(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main([], environment, folder=tmp_path) == 0
    assert capsys.readouterr().out == report.SKIPPED + "\n"
    assert list(tmp_path.iterdir()) == []


def test_tasks_of_a_set_are_played_through_a_real_gateway(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name, rows in (("small.tools", TOOLS), ("small.queries", QUERIES)):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    endpoint.answers = [
        calls(("search_tools", {"query": "weather now"})),
        calls(("call_tool", {"name": "weather-desk__now", "arguments": {}}), ("never", {})),
        DONE,
    ]
    words = ["--dir", str(data), "--model-url", url_of(endpoint), "--model", "small"]
    assert report.main(words, {}, folder=tmp_path) == 0
    figures = json.loads((tmp_path / "workflows.json").read_text())["figures"]
    assert figures == {
        "small.tasks": 1,
        "small.needs_met_percent": 50.0,
        "small.finished_percent": 100.0,
        "small.turns": 3,
        "small.searches": 1,
        "small.calls": 1,
        "small.failed_calls": 1,
        "tokens_in": 30,
        "tokens_out": 6,
    }
    _, _, last = endpoint.seen[-1]
    told = [one["content"] for one in last["messages"] if one["role"] == "tool"]
    assert "weather-desk__now" in told[0]
    assert told[1] == "now is done"
