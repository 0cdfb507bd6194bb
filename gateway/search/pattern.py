"""Finding tools by a regular expression, in time linear in what is searched."""

import re2

from gateway.errors import BadCommand
from gateway.search.tools import ToolText

LONGEST_PATTERN = 256
"""Characters."""
_MEMORY_BYTES = 1 << 20
_NAME, _DESCRIPTION, _PARAMETERS = 4.0, 2.0, 1.0


class Pattern:
    """A pattern in RE2's syntax, upper and lower case alike."""

    def __init__(self, pattern: str) -> None:
        """Compile it.

        Raises:
            BadCommand: It is too long, or RE2 does not take it.

        """
        if len(pattern) > LONGEST_PATTERN:
            raise BadCommand(f"a pattern has at most {LONGEST_PATTERN} characters")
        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        options.max_mem = _MEMORY_BYTES
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            raise BadCommand("not a regular expression in RE2's syntax") from error

    def score(self, tool: ToolText) -> float:
        """Return how much of `tool` it is found in: names first; 0 if nowhere."""
        parameters = " ".join(f"{name} {documented}" for name, documented in tool.parameters)
        fields = (
            (_NAME, f"{tool.server} {tool.name} {tool.title}"),
            (_DESCRIPTION, tool.description),
            (_PARAMETERS, parameters),
        )
        return sum(weight for weight, text in fields if self._compiled.search(text))
