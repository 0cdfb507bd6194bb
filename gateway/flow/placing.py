"""One destination: what proves it, and whose words name it."""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from gateway.domain.flow import Destination, Form, Proof, Said, Source
from gateway.domain.labels import Effect, Integrity
from gateway.flow import task as user_task
from gateway.flow.addresses import is_ours
from gateway.flow.arguments import is_address, is_called_an_address
from gateway.flow.forms import form_of
from gateway.flow.naming import nouns_of, things_in
from gateway.flow.pointing import is_called
from gateway.flow.steps import STEP, found_in
from gateway.flow.use import Knowledge, Use


def destination_of(path: str, text: str, use: Use, knowledge: Knowledge) -> Destination:
    form, prompt = form_at(path, text, use), knowledge.prompt
    if is_ours(text, knowledge.tenant):
        return _proven(path, text, form, Proof.TENANT)
    # What is longer is named by itself, whatever stands before it.
    is_long = _LONG_ENOUGH.search(text[:STEP]) or (len(text) > STEP and _is_long_enough(text))
    nouns = _NOUNLESS if is_long else _nouns(path, use.tool)
    if prompt is not None and _is_named(prompt, text, form, use, nouns):
        return _proven(path, text, form, Proof.TASK)
    provenance = knowledge.provenance
    known = provenance.proof_of(text, use.server)
    if known is None:
        proof, integrity, source = Proof.NONE, Integrity.UNTRUSTED, provenance.seen(text)
        minted = source is not None and provenance.gave(text)
    else:
        proof, integrity, source = known.proof, known.integrity, known.source
        trusted = integrity is Integrity.TRUSTED and proof is not Proof.TASK
        minted = known.minted or (trusted and provenance.gave(text))
    return Destination(
        path=path,
        value=text,
        proof=proof,
        integrity=integrity,
        origin=origin_of(source, minted=minted, clean=known is not None and known.clean),
        form=form,
        said=Said.NOT if proof is Proof.TASK else said_of(text, nouns, knowledge),
    )


def _is_named(prompt: str, text: str, form: Form, use: Use, nouns: frozenset[str]) -> bool:
    """Tell whether the user's words name `text`; a page also by the host that it is on."""
    if user_task.names(prompt, text, form):
        return True
    if form is Form.NAME:
        return things_in(prompt).name(text, nouns)
    return form is Form.URL and use.effect is Effect.READ and user_task.names_host(prompt, text)


def said_of(text: str, nouns: frozenset[str], knowledge: Knowledge) -> Said:
    """Return whose words name `text`, of those whom nobody vouches for."""
    found = Said.NOT
    prompt = knowledge.prompt
    for asked in knowledge.provenance.spoken_by(text, nouns):
        if prompt is None or not is_called(asked, prompt):
            return Said.OUTSIDER
        found = Said.POINTED
    # What stands beside an answer points nowhere: no user's words ask for it.
    beside = knowledge.provenance.asked_beside(text, nouns, knowledge.home)
    unasked = any(prompt is None or not is_called(asked, prompt) for asked in beside)
    return Said.OUTSIDER if unasked else found


def _nouns(path: str, tool: str) -> frozenset[str]:
    return nouns_of(_argument_of(path), tool)


_NOUNLESS: frozenset[str] = frozenset()
_LONG_ENOUGH = re.compile(r"(?:[^\W_][\W_]*+){4}")
"""As many letters and digits as name something by themselves."""
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def _is_long_enough(text: str) -> bool:
    """Tell of a long text what `_LONG_ENOUGH` tells, step by step."""
    return next(islice(found_in(_LETTER_OR_DIGIT, text), 3, None), None) is not None


def _argument_of(path: str) -> str:
    """Return the name of the argument that `path` is in."""
    return path.removeprefix("$.").partition("[")[0].partition(".")[0]


_LETTER = r"A-Za-z_'\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f-"
_ONE_WORD = rf"(?: ?(?:& )?(?![A-Za-z_]*+\d\w*+(?: |\Z))[{_LETTER}][{_LETTER}0-9]*+)"
_WORDS = re.compile(rf"{_ONE_WORD}++(?: [0-9]{{1,3}})?", re.ASCII)
"""Words, of which none is a host beyond this network; a number alone stands for one."""

_MANY_WORDS = re.compile(rf"{_ONE_WORD}{{1,8192}}+(?= ?(?:& )?[{_LETTER}])", re.ASCII)
"""A step through the words of a long text, behind which there is one more."""

_LONGEST_NAME = 128
"""Characters. A few words tell nobody much."""


def form_at(path: str, text: str, use: Use) -> Form:
    """Return what `text` is; what stands in an argument for hosts and URLs is one, however it looks.

    In a longer text that only says what to read, an address is one that it speaks of.
    """
    at = 0
    while len(text) - at > STEP and (some := _MANY_WORDS.match(text, at)) is not None:
        at = some.end()
    if not _WORDS.fullmatch(text, at) and is_for_addresses(path, use):
        return Form.URL
    form = form_of(text)
    by_itself = form is Form.URL or (form is not Form.NAME and use.effect is not Effect.READ)
    return form if by_itself or len(text) <= _LONGEST_NAME else Form.TEXT


def is_for_addresses(path: str, use: Use) -> bool:
    """Tell whether the argument at `path`, or the member of one, is for what says where on a network."""
    declared = use.about.get("inputSchema")
    return is_called_an_address(path) or is_address(_argument_of(path), declared)


def origin_of(
    source: Source | None, *, minted: bool = False, clean: bool = False
) -> Mapping[str, Any] | None:
    if source is None:
        return None
    return {
        "server": source.server,
        "tool": source.tool,
        "record": source.record,
        "minted": minted,
        "clean": clean,
    }


def _proven(path: str, text: str, form: Form, proof: Proof) -> Destination:
    return Destination(path=path, value=text, proof=proof, integrity=Integrity.TRUSTED, form=form)


def unproven(path: str, text: str) -> Destination:
    form = Form.NAME if text else Form.TEXT  # what is not told may be anything
    return Destination(
        path=path, value=text, proof=Proof.NONE, integrity=Integrity.UNTRUSTED, form=form
    )
