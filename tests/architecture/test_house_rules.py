"""What no linter knows: the house rules that a reader would otherwise have to look for."""

import ast
import dataclasses
import functools
import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

import gateway

PACKAGE = Path(gateway.__file__).parent
_SECRET_WORDS = ("secret", "token", "password", "credential", "private", "hmac", "seal", "signing")


@functools.cache
def parsed(*words: str) -> tuple[tuple[str, ast.Module], ...]:
    """Return every module that has one of these words, by its path below the package."""
    return tuple(
        (path.relative_to(PACKAGE).as_posix(), ast.parse(text))
        for path in sorted(PACKAGE.rglob("*.py"))
        if any(word in (text := path.read_text()) for word in words)
    )


def caught(handler: ast.ExceptHandler) -> list[str]:
    """Return the names of what a handler catches."""
    if handler.type is None:
        return ["BaseException"]
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [kind.id for kind in kinds if isinstance(kind, ast.Name)]


def handlers(kind: str) -> list[tuple[str, ast.ExceptHandler]]:
    return [
        (path, node)
        for path, tree in parsed(*(("except:", kind) if kind == "BaseException" else (kind,)))
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and kind in caught(node)
    ]


OUTLIVED = {
    "pipeline/decision_point.py": "a question's own: it is on record, and no decision",
    "pipeline/pipeline.py": "a call's own: it is answered",
    "pipeline/plane_traffic.py": "a call's own: it is on record, and refused",
    "planes/ext_proc.py": "an exchange's own: it ends with an error",
    "policy/shared.py": "what all gateways decide by is followed for as long as one runs",
    "policy/in_words.py": "a policy's own: it is refused",
    "policy/managed.py": "our own OPA is started again however often",
    "policy/reload.py": "a policy is followed for as long as the gateway runs",
    "storage/committer.py": "one write's own: the others are written",
    "storage/database.py": "one job's own: whoever waits for it gets it",
    "storage/spooling.py": "what was acknowledged comes back into the log",
    "storage/postgres/state.py": "one change's own, or a memory's: whoever waits hears of it",
    "upstream/crawler.py": "one server's own: the others are looked at",
    "storage/postgres/lanes.py": "one batch's own: whoever waits for it is refused, and the lane goes on",
    "storage/postgres/sequencer.py": "a leader's own: another one, or itself again, takes up what is durable",
    "upstream/reading.py": "one list's own: it is nothing to rely on",
    "web/exchanges.py": "a request's own: it is answered, or its connection closed",
    "wiring/gateway.py": "a reload's own: that it was refused is on record",
    "wiring/reporting.py": "one record's own: later changes are on record",
}
"""Where a bug is caught, and whose own it stays: work that must go on for all others."""


def test_a_bug_is_caught_where_something_outlives_it() -> None:
    assert {path for path, _ in handlers("Exception")} == OUTLIVED.keys()


def test_no_bug_is_caught_in_silence() -> None:
    silent = [
        f"{path}:{handler.lineno}"
        for path, handler in handlers("Exception")
        if not any(
            isinstance(node, ast.Raise)
            or (isinstance(node, ast.Name) and node.id in {"logger", handler.name})
            for inner in handler.body
            for node in ast.walk(inner)
        )
    ]
    assert silent == []


def test_whatever_else_is_caught_to_clean_up_is_raised_again() -> None:
    silent = [
        f"{path}:{handler.lineno}"
        for path, handler in handlers("BaseException")
        if not any(isinstance(node, ast.Raise) and node.exc is None for node in handler.body)
    ]
    assert silent == []


def test_no_assertion_guards_the_product() -> None:
    found = [
        path
        for path, tree in parsed("assert")
        if any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    ]
    assert found == []


def test_no_time_is_without_its_zone() -> None:
    naive = []
    for path, tree in parsed("datetime"):
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            arguments = len(node.args) + len(node.keywords)
            naive += [
                f"{path}:{node.lineno}"
                for method, needed in (("utcnow", 99), ("utcfromtimestamp", 99), ("now", 1))
                if node.func.attr == method
                and ast.unparse(node.func.value).endswith("datetime")
                and arguments < needed
            ]
            if node.func.attr == "fromtimestamp" and arguments < 2:
                naive.append(f"{path}:{node.lineno}")
    assert naive == []


def test_few_know_how_a_text_is_normalised() -> None:
    """It takes time quadratic in a run of marks, and no other thread has its turn meanwhile."""
    found = [
        path
        for path, tree in parsed("normalize")
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "normalize")
        or (isinstance(node, ast.alias) and node.name == "normalize")
    ]
    # Piece by piece, character by character, and no more than a password may have.
    assert set(found) == {"domain/normal.py", "flow/folding.py", "signin/passwords.py"}


OURS = {
    "audit/bundle.py": {"members": "lines of a record's, which has 64 KiB at most"},
    "audit/forms.py": {"content": "members of a record's, which has 64 KiB at most"},
    "audit/query.py": {
        "[order.value, at, record['leaf_index']]": "a place in the log",
        "operand": "a text",
        "wanted": "a text",
    },
    "builtin/advice.py": {"name": "a text"},
    "builtin/cursors.py": {"place": "a place in a list"},
    "config/alike.py": {"_plain(path, content)": "the operator's"},
    "config/reading.py": {"content": "the operator's"},
    "config/registered.py": {"{_SERVERS: servers}": "the operator's"},
    "domain/rewriting.py": {"number": "one number"},
    "flow/redaction.py": {"secret": "a text"},
    "oauth/held_keys.py": {
        "ECKey.generate_key(_CURVE).as_dict(private=True)": "a key",
        "said": "a proof of ours",
    },
    "pins/diff.py": {"content": "one number, or nothing in brackets"},
    "pipeline/redacting.py": {"word": "a text"},
    "policy/bundle.py": {"input_schema()": "ours"},
    "policy/standard.py": {"input_schema()": "ours"},
    "policy/texts.py": {"told": "the operator's"},
    "sandbox/declarations.py": {"": "short texts and integers of an `enum`", "name": "a text"},
    "sandbox/deno_modules.py": {"{'imports': dict.fromkeys(names, _GONE)}": "ours"},
    "signin/federation.py": {"asdict(leg)": "ours"},
    "storage/choices.py": {
        "sorted(choice.runs)": "a person's choice",
        "sorted(choice.selection.names)": "a person's choice",
    },
    "storage/identity/remembered.py": {
        "held[n]": "lists of words of ours",
        "list(words)": "words of ours",
    },
    "storage/identity/standing.py": {"content": "a person's yes"},
    "storage/postgres/allowance.py": {"one.under": "names"},
    "storage/postgres/moving.py": {"orjson.loads(said)": "names"},
    "upstream/launch.py": {"spec": "the operator's"},
    "wiring/administration.py": {"published.get(key.kid)": "a key"},
    "wiring/alike.py": {"dict(alike(config))": "the operator's"},
}
"""What the standard library's writer writes, and why that is no message of anybody's."""


def written_at_once() -> Iterator[tuple[str, str]]:
    """Yield what `json.dumps` writes, and where; of what it is handed to, nothing."""
    for path, tree in parsed("dumps"):
        nodes = list(ast.walk(tree))
        of = {
            id(node.func): ast.unparse(node.args[0])
            for node in nodes
            if isinstance(node, ast.Call) and node.args
        }
        for node in nodes:
            if isinstance(node, ast.Attribute) and ast.unparse(node) in {"json.dumps", "json.dump"}:
                yield path, of.get(id(node), "")


def test_what_others_say_is_not_written_in_one_turn() -> None:
    """A double that is far from one takes that writer a thousand times what an integer does.

    No other thread has its turn meanwhile. `wire.jsontext` writes what others say, and
    `domain.document.plain` what is hashed; a command is a process of its own.
    """
    found = {(path, what) for path, what in written_at_once() if not path.startswith("cli/")}
    assert found == {(path, what) for path, allowed in OURS.items() for what in allowed}


def test_one_place_reads_what_stands_for_characters_in_html() -> None:
    """Python raises an error where a reference has many digits, and what raises it is a bug."""
    found = [
        path
        for path, tree in parsed("unescape")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "unescape"
    ]
    assert found == ["flow/entities.py"]


def classes() -> Iterator[type]:
    """Yield every class that the package defines."""
    for module in pkgutil.walk_packages([str(PACKAGE)], "gateway."):
        if module.name.endswith("__main__"):
            continue
        loaded = importlib.import_module(module.name)
        for _, found in inspect.getmembers(loaded, inspect.isclass):
            if found.__module__ == module.name:
                yield found


_ABOUT_A_SECRET = ("_id", "_hash", "_url", "_endpoint", "_algorithm", "_sent")
"""Endings of names that say something of a secret, and are none."""


def holds_text(annotation: object) -> bool:
    """Whether a field of this type could hold a secret itself; a value of ours guards its own."""
    return not (isinstance(annotation, type) and annotation.__module__.startswith("gateway."))


def test_no_secret_has_a_repr() -> None:
    """A field that is named like a secret and holds text, bytes or a key is not shown."""
    told = [
        f"{found.__module__}.{found.__name__}.{field.name}"
        for found in classes()
        if dataclasses.is_dataclass(found)
        for field in dataclasses.fields(found)
        if field.repr
        and any(word in field.name for word in _SECRET_WORDS)
        and not field.name.endswith(_ABOUT_A_SECRET)
        and holds_text(field.type)
    ]
    assert set(told) == {
        # A credential without its repr, or none.
        "gateway.domain.calls.Call.credential",
        "gateway.upstream.settings.UpstreamSettings.credential",
        # Redirect URIs with a private scheme are no secret.
        "gateway.oauth.documents.DocumentRules.private_redirects",
        "gateway.oauth.registration.RegistrationRules.private_redirects",
    }


def test_values_are_frozen_and_keyword_only() -> None:
    loose = [
        f"{found.__module__}.{found.__name__}"
        for found in classes()
        if dataclasses.is_dataclass(found)
        and not (
            issubclass(found, msgspec.Struct)
            and found.__struct_config__.frozen
            and all(
                one.kind is one.KEYWORD_ONLY for one in inspect.signature(found).parameters.values()
            )
        )
    ]
    assert loose == []


def test_no_two_files_of_tests_share_a_name() -> None:
    tests = Path(__file__).parents[1]
    names = Counter(path.name for path in tests.rglob("test_*.py"))
    twice = [name for name, times in names.items() if times > 1]
    assert not twice, f"whoever collects both takes one for the other: {twice}"
