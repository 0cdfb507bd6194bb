"""Which servers were registered at run time, where gateways that share a database have them alike."""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.errors import ConfigError

_LETTERS: Final = 16
_USE: Final = "registered servers:"
_COUNT: Final = re.compile(r"# ([0-9]{1,15})\n")
_BESIDE: Final = "+"
"""Between the name of a policy and that of what is registered beside it."""


class Roster:
    """What is registered, as this process knows it: the text that stands in `servers.yaml` elsewhere."""

    def __init__(self, key: bytes) -> None:
        """`key` is one that these gateways have, and who keeps their database has not."""
        self._key = key
        self._given_up: frozenset[str] = frozenset()
        """Texts that came into force nowhere, and are newer than what is in force."""
        self._most = 0
        """The highest count of any text that a gateway has vouched for, as far as this one knows."""
        self.text = ""
        """Empty where nothing was ever registered."""
        self.servers: Mapping[str, Any] = {}
        """What it says of each, by name."""
        self.admit: Callable[[str], None] = _admit_all
        """Returns if this process could have such a text in force, and raises a `ConfigError` if not. It may wait."""
        self.changed: Callable[[], None] = _nobody
        """Is told of another text."""

    def put(self, text: str) -> None:
        """Have `text` be what is registered: it is in force, whether or not it can be taken up here."""
        if text != self.text:
            self.text, self.servers = text, _servers(text)
            # What is counted no higher is refused by that.
            self._given_up = frozenset(one for one in self._given_up if _count(one) > _count(text))
            self.changed()

    def following(self, text: str) -> str:
        """Return `text` as what is registered next: with a count that no gateway has vouched for before.

        So whatever was refused is older than the next that comes into force.
        """
        return f"# {max(self._most, _count(self.text)) + 1}\n{text}"

    def vouched(self, text: str) -> str:
        """Return `text` as it is told to others; see `opened`."""
        self._most = max(self._most, _count(text))
        return f"{self._mac(text)} {text}" if text else ""

    def give_up(self, text: str) -> None:
        """Have `text` come into force here no more, if it is not: whoever proposed it was told that it is nowhere.

        A gateway has vouched for it, and whoever keeps the database has it.
        """
        if text != self.text:
            self._given_up |= {text}

    def is_given_up(self, text: str) -> bool:
        """Whether `text` came into force nowhere, and may not any more."""
        return text in self._given_up

    def opened(self, told: str) -> str:
        """Return what a gateway of ours has told.

        A server that is registered may be sent secrets of this machine's: nobody but a gateway says which there are,
        and what one said comes into force once.

        Raises:
            ConfigError: None of ours has told it, it was given up, or another was in force since.

        """
        vouched, _, text = told.partition(" ")
        if told and not hmac.compare_digest(vouched.encode(), self._mac(text).encode()):
            raise ConfigError("what is registered was written by none of these gateways")
        if text != self.text and _count(text) <= _count(self.text) > 0:
            raise ConfigError("what is registered is older than what was in force here")
        if self.is_given_up(text):
            raise ConfigError("what is registered was refused, and came into force nowhere")
        self._most = max(self._most, _count(text))
        return text

    def _mac(self, text: str) -> str:
        return hmac.digest(self._key, f"{_USE}{text}".encode(), "sha256").hex()

    def stop(self) -> None:
        """Tell nobody any more."""
        self.changed = _nobody

    def beside(self, policy: str) -> str:
        """Return what `policy` and what is registered now are called together."""
        return named(policy, self.text)


def tag(servers: str) -> str:
    """Return what names these servers; empty where nothing was ever registered."""
    return hashlib.sha256(servers.encode()).hexdigest()[:_LETTERS] if servers else ""


def named(policy: str, servers: str) -> str:
    """Return what a policy is called with these `servers` registered."""
    return f"{policy}{_BESIDE}{tag(servers)}" if policy and servers else policy


def parts(name: str) -> tuple[str, str]:
    """Return the policy's part of what `named` returned, and that of the servers."""
    policy, _, servers = name.partition(_BESIDE)
    return policy, servers


def _count(text: str) -> int:
    count = _COUNT.match(text)
    return 0 if count is None else int(count[1])


def _servers(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(_COUNT.sub("", text, count=1))["servers"]
    except (ValueError, KeyError, TypeError):
        return {}  # whoever takes the configuration up says what is wrong with it
    return found if isinstance(found, dict) else {}


def _admit_all(_: str) -> None:
    """Nobody has said what could not be."""


def _nobody() -> None:
    """Nobody is to be told."""
