"""What the arguments of a tool are for that nobody labelled.

Whoever labels a tool says which arguments say where to. Of one that nobody did, all may: each must have been
chosen by somebody who may, but for those that carry content by their names, or choose between a few values.
"""

from dataclasses import replace

from gateway.domain.labels import Effect, ToolRule
from gateway.flow.arguments import arguments_of, destination_of
from gateway.flow.use import Use


def labelled(use: Use) -> Use:
    """Return `use` with the labels of its arguments, or else with those that its definition allows for."""
    return replace(use, rule=_allowed_for(use)) if use.is_unlabelled else use


def _allowed_for(use: Use) -> ToolRule:
    declared = {each.name: each for each in arguments_of(use.about.get("inputSchema"))}
    if use.effect is Effect.READ:
        return replace(use.rule, destination=destination_of(use.effect, tuple(declared.values())))
    payload, destination = list(use.rule.payload), []
    for name in dict.fromkeys((*declared, *use.arguments)):
        argument = declared.get(name)
        if name in use.rule.payload:
            continue
        if argument is None or not (argument.text or argument.option):
            destination.append(name)
        elif not argument.option:
            payload.append(name)
    return replace(use.rule, destination=tuple(destination), payload=tuple(payload))
