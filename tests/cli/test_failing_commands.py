"""How a command fails: in one line that speaks to nobody's terminal."""

import pytest

from gateway.cli.failure import Failed, seen


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("douane.yaml:1: no\ndouane.yaml:2: no", "douane.yaml:1: no\ndouane.yaml:2: no"),
        ("a name like caf\u00e9", "a name like caf\u00e9"),
        ("\x1b[2J\x1b]0;title\x07", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
        ("safe\rfake", "safe\\u{d}fake"),
        ("left\u202eright", "left\\u{202e}right"),
    ],
)
def test_nothing_that_others_wrote_speaks_to_the_terminal(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert seen(text) == shown
    Failed(text, exit_code=1).show()
    assert capsys.readouterr().err == f"douane: {shown}\n"
