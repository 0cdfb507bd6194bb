"""What the arguments of a tool are for that nobody labelled.

Whoever labels a tool says which arguments say where to. Of one that nobody did, all may: each must have been
chosen by somebody who may, but for those that carry content by their names, or choose between a few values.
"""

from dataclasses import replace
from typing import Any

from gateway.domain.flow import Form
from gateway.domain.labels import Effect, ToolRule
from gateway.flow.arguments import arguments_of, destination_of
from gateway.flow.asked import told_of
from gateway.flow.forms import form_of
from gateway.flow.results import is_called_an_id, text_of
from gateway.flow.task import is_number, is_time
from gateway.flow.use import Use
from gateway.flow.words import QUANTITIES, WHAT, WHO, singular, words_of


def labelled(use: Use) -> Use:
    """Return `use` with the labels of its arguments, or else with those that its definition allows for."""
    return replace(use, rule=_allowed_for(use)) if use.is_unlabelled else use


def _allowed_for(use: Use) -> ToolRule:
    declared = {each.name: each for each in arguments_of(use.about.get("inputSchema"))}
    if use.effect is Effect.READ or told_of(use) is Effect.READ:
        # What it looks for reaches nobody.
        places = destination_of(Effect.READ, tuple(declared.values()))
        return replace(use.rule, destination=places)
    payload, destination = list(use.rule.payload), []
    for name in dict.fromkeys((*declared, *use.arguments)):
        argument = declared.get(name)
        if name in use.rule.payload:
            continue
        if _is_quantity(name, use.arguments.get(name)):
            payload.append(name)
        elif argument is None or not (argument.text or argument.option):
            destination.append(name)
        elif not argument.option:
            payload.append(name)
    return replace(use.rule, destination=tuple(destination), payload=tuple(payload))


def _is_quantity(name: str, given: Any) -> bool:
    """Tell whether `given` is a number or a time, in an argument that identifies nothing."""
    text = text_of(given)
    if text is None or not is_number(text) or is_called_an_id(name):
        return False
    return form_of(text) is Form.NAME and (WHO | WHAT).isdisjoint(map(singular, words_of(name)))


def is_quantity(name: str, text: str) -> bool:
    """Tell whether `text` is a time, or a number in what is called a quantity: it reaches nothing.

    Of what somebody called a destination this is to be known, and not only not otherwise.
    """
    words = [singular(word) for word in words_of(name) if not word.isdigit()]
    if is_called_an_id(name) or not (WHO | WHAT).isdisjoint(words):
        return False
    if is_time(text):
        return True
    counted = bool(words) and words[-1] in QUANTITIES
    return counted and is_number(text) and form_of(text) is Form.NAME
