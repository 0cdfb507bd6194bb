"""Tools as typed functions: after their schemas, whatever a server calls them or says of them."""

import ast
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.programs import Program, ProgramStatus, ProgramTool
from gateway.sandbox.declarations import typescript, typescript_name, typescript_stub
from gateway.sandbox.monty import MontyEngine
from gateway.sandbox.names import ToolTable, identifier, shown
from gateway.sandbox.stubs import python_module, python_stub
from tests.sandbox.brokers import Scripted, unchanged

INPUT = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "labels": {"type": "array", "items": {"enum": ["bug", "idea", 1, None]}},
        "place": {"$ref": "#/$defs/place"},
        "when": {"type": ["integer", "null"]},
        "extra": {"type": "object", "additionalProperties": {"type": "number"}},
        "either": {"anyOf": [{"type": "boolean"}, {"const": "later"}]},
    },
    "required": ["title", "place"],
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"x-y": {"type": "number"}, "class": {"type": "string"}},
            "required": ["x-y"],
        }
    },
}
OUTPUT = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "str": {"type": "string"}},
    "required": ["number"],
}
CREATE = ProgramTool(
    server="my-git",
    name="create_issue",
    description="Creates it.",
    input_schema=INPUT,
    output_schema=OUTPUT,
)
names = st.text(max_size=20) | st.text("ab_-.", max_size=6)


def test_a_tool_is_a_typed_function() -> None:
    assert (
        python_stub(CREATE)
        == '''# from tools import my__git
create_issue_place = TypedDict('create_issue_place', {'x-y': float, 'class': NotRequired[str]})

create_issue_Result = TypedDict('create_issue_Result', {'number': int, 'str': NotRequired[str]})

async def create_issue(*, title: str, labels: List[Literal['bug', 'idea', 1, None]] = ..., place: create_issue_place, when: int | None = ..., extra: Dict[str, float] = ..., either: bool | Literal['later'] = ...) -> create_issue_Result:
    """Creates it."""
    ...
'''
    )


def test_the_same_tool_in_typescript() -> None:
    assert (
        typescript_stub(CREATE)
        == """declare namespace tools.my__git {
  /** Creates it. */
  function create_issue(input: {
    title: string;
    labels?: Array<"bug" | "idea" | 1 | null>;
    place: {
      "x-y": number;
      class?: string;
    };
    when?: number | null;
    extra?: Record<string, number>;
    either?: boolean | "later";
  }): Promise<{
    number: number;
    str?: string;
  }>;
}
"""
    )


def test_what_has_no_schema_has_a_general_type() -> None:
    tool = ProgramTool(server="s", name="t")
    assert (
        python_stub(tool)
        == "# from tools import s\nasync def t(**arguments: Any) -> Any:\n    ...\n"
    )
    assert "function t(input?: any): Promise<any>;" in typescript_stub(tool)


def test_names_that_no_parameter_can_have_are_given_as_one_dict() -> None:
    schema = {"type": "object", "properties": {"X-Id": {"type": "string"}}, "required": ["X-Id"]}
    stub = python_stub(ProgramTool(server="s", name="t", input_schema=schema))
    assert "t_Arguments = TypedDict('t_Arguments', {'X-Id': str})" in stub
    assert "async def t(arguments: t_Arguments, /) -> Any:" in stub


@pytest.mark.parametrize(
    ("name", "ident"),
    [
        ("create_issue", "create_issue"),
        ("createIssue2", "createIssue2"),
        ("create-issue", "create__issue"),
        ("create__issue", "create_issue___e6243984f419"),
        ("class", "class___0889113e04d3"),
        ("str", "str___8c25cb368646"),
        ("_private", "private___3ce6c2497083"),
        ("1st", "x_1st___e01ddf6594a4"),
        ("", "x___e3b0c44298fc"),
        ("a.b", "a_b___2e7336dc8eba"),
        ("日本", "x___cf2abf0c5be3"),
    ],
)
def test_a_name_of_words_is_its_own_identifier_and_another_has_a_hash(
    name: str, ident: str
) -> None:
    assert identifier(name) == ident
    assert ident.isidentifier()


@given(names, names)
def test_no_two_names_have_the_same_identifier(one: str, other: str) -> None:
    assert (identifier(one) == identifier(other)) == (one == other)
    assert (typescript_name(one) == typescript_name(other)) == (one == other)


@given(st.lists(names, max_size=6, unique=True), st.lists(names, max_size=6))
def test_a_tool_is_found_by_its_identifier_whatever_else_there_is(
    those: list[str], others: list[str]
) -> None:
    tools = [ProgramTool(server="a-b", name=name) for name in {*those, *others}]
    table = ToolTable(tools)
    for name in those:
        found = table.find(f"tools.{shown('a-b', name)}")
        assert found is not None
        assert (found.server, found.name) == ("a-b", name)


def test_what_is_no_tool_of_the_package_is_not_found() -> None:
    table = ToolTable([CREATE])
    assert table.find("tools.my__git.create_issue") is CREATE
    for path in (
        "my__git.create_issue",
        "tools.my-git.create_issue",
        "other.my__git.create_issue",
        "",
    ):
        assert table.find(path) is None


def test_of_two_names_with_one_identifier_neither_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.sandbox.names._HASH_CHARS", 0)
    tools = [ProgramTool(server="s", name=name) for name in ("a.b", "a:b", "c")]
    assert list(ToolTable(tools).servers["s"]) == ["c"]
    assert ToolTable(tools[:2]).servers == {}


HOSTILE = [
    'x"""\nimport os\n"""',
    'ends with a quote"',
    "ends with a backslash\\",
    "*/ evil(); /*",
    "line\nanother\u2028third\x85fourth",
    "unseen \u202e\u200b\U000e0041 text",
    "'''",
]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_of_a_server_ends_what_it_stands_in(text: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "description": text},
            "b": {"enum": [text]},
            text: {"type": "object", "properties": {text: {"const": text}}},
        },
    }
    tool = ProgramTool(
        server=text, name=text, description=text, input_schema=schema, output_schema=schema
    )
    source = python_module(ToolTable([tool]).servers[identifier(text)])
    assert_only_declarations(source)
    for line in typescript(ToolTable([tool]), typescript_name(text)).split("\n"):
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", line)
        assert outside.count("*/") == line.startswith("  /** ")
        assert not set(line) & set("\x85\u2028\u202e\u200b\U000e0041")


schemas: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["string", "integer", "null", "object", "array", 7]).map(
        lambda kind: {"type": kind}
    )
    | st.text(max_size=5)
    | st.booleans()
    | st.sampled_from([{"$ref": "#"}, {"$ref": "#/properties/a"}, {"$ref": 3}, {"enum": []}]),
    lambda inner: (
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.text(max_size=5), inner, max_size=3)},
            optional={
                "required": inner | st.lists(st.text(max_size=3), max_size=2),
                "additionalProperties": inner,
            },
        )
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3) | inner})
        | st.fixed_dictionaries({"enum": st.lists(inner, max_size=3)})
    ),
    max_leaves=12,
)


@given(schemas.filter(lambda one: isinstance(one, dict)), names, names, st.text(max_size=30))
def test_whatever_a_server_shows_its_stubs_only_declare(
    schema: dict[str, Any], server: str, name: str, text: str
) -> None:
    tool = ProgramTool(
        server=server, name=name, description=text, input_schema=schema, output_schema=schema
    )
    table = ToolTable([tool])
    assert_only_declarations(python_module(table.servers[identifier(server)]))
    assert typescript(table, f"{typescript_name(server)} {typescript_name(name)}")


def assert_only_declarations(source: str) -> None:
    """Check that `source` declares types and functions that do nothing, and runs nothing."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.AsyncFunctionDef):
            assert all(
                isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
                for one in node.body
            )
            assert node.decorator_list == []
        elif isinstance(node, ast.ClassDef):
            assert all(isinstance(one, ast.AnnAssign) and one.value is None for one in node.body)
        elif isinstance(node, ast.Assign):
            assert isinstance(node.value, ast.Call)
            assert ast.unparse(node.value.func) == "TypedDict"
        else:
            assert isinstance(node, ast.ImportFrom)
            assert node.module == "typing"


def test_a_few_lines_that_stand_for_billions_cost_little() -> None:
    levels = {
        f"l{n}": {
            "type": "object",
            "properties": {f"p{m}": {"$ref": f"#/$defs/l{n + 1}"} for m in range(5)},
        }
        for n in range(30)
    }
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": levels}
    tool = ProgramTool(server="s", name="t", input_schema=schema, output_schema=schema)
    assert len(python_stub(tool)) < 200_000
    assert len(typescript_stub(tool)) < 200_000
    loop = ProgramTool(
        server="s", name="t", input_schema={"$ref": "#"}, output_schema={"$ref": "#/x/y"}
    )
    assert python_stub(loop).endswith("async def t(**arguments: Any) -> Any:\n    ...\n")


def test_types_of_two_tools_are_apart() -> None:
    tools = [
        ProgramTool(server="s", name=name, output_schema=OUTPUT)
        for name in ("a", "a_Result", "a-Result", "Any", "list")
    ]
    source = python_module(ToolTable(tools).servers["s"])
    declared = [
        getattr(node, "name", None) or node.targets[0].id  # type: ignore[attr-defined]
        for node in ast.parse(source).body[1:]
    ]
    assert len(set(declared)) == len(declared) == 10


async def test_programs_are_checked_against_the_stubs(engine: MontyEngine) -> None:
    tools = (CREATE, *(ProgramTool(server="s", name=name, description=name) for name in HOSTILE))

    async def ended(code: str) -> tuple[ProgramStatus, str]:
        program = Program(code=f"from tools import my__git, s\n{code}", tools=tools)
        result = await engine.run(program, Scripted(), redact=unchanged)
        return result.status, result.error

    good = (
        'm = await my__git.create_issue(title="a", place={"x-y": 1}, labels=["bug"])\nm["number"]'
    )
    assert await ended(good) == (ProgramStatus.OK, "")
    odd = identifier(HOSTILE[0])
    assert await ended(f"await s.{odd}(a=1)") == (ProgramStatus.OK, "")
    for wrong in ('place={"x": 1}', 'place={"x-y": "1"}', 'place={"x-y": 1}, labels=["no"]', ""):
        status, error = await ended(f'await my__git.create_issue(title="a", {wrong})')
        assert status is ProgramStatus.TYPES
        assert "program.py:2" in error
    assert (await ended("from tools import nobody"))[0] is ProgramStatus.TYPES
    whole = Program(
        code="import tools\nawait tools.s.x(a=1)", tools=(ProgramTool(server="s", name="x"),)
    )
    assert (await engine.run(whole, Scripted(), redact=unchanged)).value == {"number": 1}


def test_a_type_that_is_no_text_is_not_written_out() -> None:
    """It can be as large as a definition, and is referred to hundreds of times."""

    class Unwritten(dict[str, Any]):
        def __repr__(self) -> str:
            raise AssertionError

    odd = {"type": "object", "properties": {"a": {"type": Unwritten(a=1)}}}
    tool = ProgramTool(server="s", name="x", input_schema=odd)
    assert "async def x(*, a: Any = ...)" in python_stub(tool)
    assert "a?: any;" in typescript_stub(tool)


def test_a_constant_that_its_version_does_not_know_is_no_type() -> None:
    for version, told in ((4, "string"), (7, '"x"')):
        schema = {
            "$schema": f"http://json-schema.org/draft-0{version}/schema#",
            "type": "object",
            "properties": {"a": {"type": "string", "const": "x"}},
        }
        tool = ProgramTool(server="s", name="t", input_schema=schema)
        assert f"a?: {told};" in typescript_stub(tool)
        assert ("Literal" in python_stub(tool)) is (version == 7)
