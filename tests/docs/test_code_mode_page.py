"""docs/code-mode.md shows the program that the demo runs, and names what there is."""

from gateway.builtin.run_code import DEFINITION
from gateway.domain.programs import CallState, ProgramStatus
from tests.demo.desk import PROGRAM, TASK, TOOLS
from tests.docs.pages import ROOT, blocks, prose, rows, spans

PAGE = ROOT / "docs" / "code-mode.md"
WORDS = " ".join(prose(PAGE).split())


def test_the_program_on_the_page_is_the_one_of_the_demo() -> None:
    assert PROGRAM in blocks(PAGE, "python")
    assert TASK in WORDS[WORDS.index("Find all") :].replace("Find", "find", 1)
    assert all(f'"{tool}"' in PAGE.read_text() for tool in TOOLS)


def test_every_end_of_a_program_and_of_a_call_is_told() -> None:
    told = {name for row in rows(PAGE, "member") for cell in row.values() for name in spans(cell)}
    assert {status.value for status in ProgramStatus} <= told
    assert {state.value for state in CallState} <= told


def test_every_argument_of_the_tool_is_told() -> None:
    properties = DEFINITION["inputSchema"]["properties"]
    grant = properties["grants"]["items"]["properties"]
    text = PAGE.read_text()
    assert [name for name in (*properties, *grant) if name not in text] == []
