"""The JSON Schema of what policies are asked, and which of its members each phase has."""

from typing import Any

from gateway.domain.calls import OriginKind
from gateway.domain.decisions import Phase
from gateway.domain.flow import Chosen, Form, Proof, Said
from gateway.domain.labels import Confidentiality, Effect, Integrity
from gateway.domain.quotas import Count, Per
from gateway.domain.tools import Kind, PinStatus

Schema = dict[str, Any]

ABSENT: dict[Phase, frozenset[str]] = {
    Phase.LIST: frozenset({"arguments", "flow", "usage", "dlp", "result"}),
    Phase.CALL: frozenset({"result"}),
    Phase.RESULT: frozenset(),
}
"""Members of the input that a phase never has: a rule of that phase cannot mean them."""

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer", "minimum": 0}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_OPEN: Schema = {"type": "object"}


def input_schema() -> Schema:
    """Return the schema of both questions: `data.douane.decision`'s and `data.douane.pin`'s.

    `arguments`, `annotations` and `result` are open, since upstreams choose them; all else is
    closed, so that a misspelled member is found when a policy is loaded.
    """
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "What Douane asks a policy",
        "anyOf": [_decision_input(), _pin_input()],
    }


def _closed(optional: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name in properties if name not in optional],
        "properties": properties,
    }


def _list_of(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _word(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def _decision_input() -> Schema:
    return _closed(
        ("arguments", "flow", "usage", "dlp"),
        version={"type": "integer", "const": 1},
        phase=_word(*Phase),
        method=_TEXT,
        principal=_principal(),
        origin=_origin(),
        target=_target(),
        arguments=_OPEN,
        flow=_flow(),
        usage=_closed(over=_list_of(_used()), counts=_list_of(_used())),
        dlp=_closed(
            arguments=_list_of(
                _found(("place",), given=_word("", "server", "task"), place={"type": "boolean"})
            ),
            result=_list_of(_found()),
        ),
        task=_closed(prompt=_or_null(_TEXT), tools=_or_null(_TEXTS)),
        approval=_or_null(_OPEN),
        context=_closed(time=_TEXT, ip=_TEXT, revision=_TEXT, endpoint=_TEXT),
        result={},
    )


def _found(optional: tuple[str, ...] = (), **besides: Schema) -> Schema:
    named: dict[str, Schema] = {"class": _TEXT, "group": _TEXT, "path": _TEXT, "count": _WHOLE}
    return _closed(optional, **named, **besides)


def _principal() -> Schema:
    return _closed(
        sub=_TEXT,
        iss=_TEXT,
        groups=_TEXTS,
        scopes=_TEXTS,
        client=_closed(id=_TEXT, name=_TEXT),
    )


def _origin() -> Schema:
    return _closed(
        kind=_word(*OriginKind),
        run=_TEXT,
        parent=_or_null(_TEXT),
        seq=_WHOLE,
        script_sha256=_or_null(_TEXT),
        grants={"type": "array"},
    )


def _target() -> Schema:
    kinds = [kind for kind in Kind if kind is not Kind.SERVER]
    return _closed(
        server=_TEXT,
        kind=_word(*kinds),
        name=_TEXT,
        effect=_word("", *Effect),
        annotations=_OPEN,
        pin=_closed(digest=_TEXT, status=_word(*PinStatus), approved_by=_TEXT),
    )


def _label() -> Schema:
    return _closed(
        integrity=_word(*(word.word for word in Integrity)),
        confidentiality=_level(),
    )


def _level() -> Schema:
    return _word(*(word.word for word in Confidentiality))


def _flow() -> Schema:
    match_ = _closed(
        ("decoded",),
        record=_TEXT,
        kind=_word("exact", "fragment", "link"),
        bytes=_WHOLE,
        decoded=_TEXT,
        confidentiality=_level(),
    )
    return _closed(
        ("told", "unheard", "lasting", "at_home"),
        label=_label(),
        sources=_list_of(_closed(server=_TEXT, tool=_TEXT, record=_TEXT, label=_label())),
        destinations=_list_of(_destination()),
        names_where={"type": "boolean"},
        payload=_list_of(_closed(path=_TEXT, matches=_list_of(match_), said=_word(*Said))),
        links=_list_of(_destination()),
        asked_for=_or_null({"type": "boolean"}),
        told=_or_null(_word(*Effect)),
        left_open={"type": "boolean"},
        unheard={"type": "boolean"},
        lasting={"type": "boolean"},
        at_home={"type": "boolean"},
        violations=_list_of(_closed(code=_TEXT, message=_TEXT)),
    )


def _used() -> Schema:
    amount: Schema = {"type": "number", "minimum": 0}
    return _closed(
        quota=_TEXT,
        count=_word(*Count),
        per=_word("", *Per),
        most=amount,
        used=amount,
        left=amount,
        until=_TEXT,
    )


def _destination() -> Schema:
    members = {
        "path": _TEXT,
        "value": _TEXT,
        "form": _word(*Form),
        "proof": _word(*Proof),
        "integrity": _word(*(word.word for word in Integrity)),
        "from": _or_null(_OPEN),
        "said": _word(*Said),
        "by": _word(*Chosen),
    }
    return _closed(**members)


def _pin_input() -> Schema:
    return _closed(
        server=_TEXT,
        item=_TEXT,
        change=_closed(
            tier=_word("new", "T0", "T1", "T2", "T3"),
            findings={"type": "array"},
            fields={"type": "array"},
            version_changed={"type": "boolean"},
        ),
    )
