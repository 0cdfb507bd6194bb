"""A model behind any URL that speaks OpenAI's chat completions."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_PATIENCE_S = 300


class ModelFailed(Exception):
    """The model gave no answer that could be used; the text says why."""


@dataclass(kw_only=True)
class Model:
    """Where it is, what it is called there, and what it has cost so far."""

    url: str
    """Up to and with `/v1`."""
    name: str
    key: str = field(default="", repr=False)
    tokens_in: int = 0
    """As it counts them itself."""
    tokens_out: int = 0

    def answer(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the message that comes after `messages`: a text, or calls of `tools`.

        Raises:
            ModelFailed: There was none.

        """
        asked = {"model": self.name, "messages": messages, "tools": tools, "temperature": 0}
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(
            f"{self.url.rstrip('/')}/chat/completions", json.dumps(asked).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answered:
                told = json.load(answered)
            message: dict[str, Any] = {**told["choices"][0]["message"]}
            usage = told.get("usage") or {}
            self.tokens_in += int(usage.get("prompt_tokens") or 0)
            self.tokens_out += int(usage.get("completion_tokens") or 0)
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ModelFailed(f"{type(error).__name__}: {error}") from error
        return message
