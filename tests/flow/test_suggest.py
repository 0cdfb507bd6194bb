"""What definitions suggest, and that only a person lowers anything."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.labels import Effect, ToolRule
from gateway.flow.suggest import SECRET, Suggestion, joined, suggest, suggestion_for
from tests.flow.taken import accepted_rule, live_rule

STRING = {"type": "string"}


def tool(
    name: str,
    *arguments: str,
    text: str | None = None,
    reads: bool | None = None,
    output: Any = None,
    **schemas: Any,
) -> dict[str, Any]:
    properties = dict.fromkeys(arguments, STRING) | schemas
    definition: dict[str, Any] = {
        "name": name,
        "inputSchema": {"type": "object", "properties": properties},
    }
    if text is not None:
        definition["description"] = text
    if reads is not None:
        definition["annotations"] = {"readOnlyHint": reads}
    if output is not None:
        definition["outputSchema"] = output
    return definition


def effect(name: str, *arguments: str, **more: Any) -> str | None:
    found = suggestion_for(tool(name, *arguments, **more)).effect
    return None if found is None else found.value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("get_page", "read"),
        ("searchMessages", "read"),
        ("list-open-orders", "read"),
        ("get_post", "read"),
        ("rename.collection", "write"),
        ("createDraft", "write"),
        ("post_message", "egress"),
        ("SendSMS", "egress"),
        ("create_comment", "egress"),
        ("transfer_funds", "pay"),
        ("place_order", "pay"),
        ("update_scheduled_transaction", "pay"),
        ("drop-database", "destroy"),
        ("confirm_delete_group", "destroy"),
        ("search_and_delete", "destroy"),
        ("update_password", "credential"),
        ("grant_permission", "credential"),
        ("rotateAPIKeys", None),
        ("create_api_key", "credential"),
        ("assign_role", "credential"),
        ("press_key", "write"),
        ("run_query", "execute"),
        ("exec", "execute"),
        ("frobnicate", None),
        ("", None),
    ],
)
def test_a_name_says_what_a_tool_does(name: str, expected: str | None) -> None:
    assert effect(name) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Returns the pages of a book.", "read"),
        ("This tool allows you to send a fax. It is fast.", "egress"),
        ("Tool for deleting rows", "destroy"),
        ("Stores a value. It also emails the owner.", "egress"),
        ("Lists books. This also deletes old ones.", "destroy"),
        ("Lists books. Delete them elsewhere.", "read"),
        ("Search, create, and delete books", "destroy"),
        ("Gets comments, updates and messages", "write"),
        ("Run a report", None),
        ("Run a shell command", "execute"),
        ("A book about sending", None),
        (None, None),
        (7, None),
        ("", None),
        ("the a an", None),
        ("Gets books and", "read"),
        ("Gets books, and then deletes them", "destroy"),
    ],
)
def test_a_description_says_it_where_a_name_does_not(text: Any, expected: str | None) -> None:
    assert effect("frobnicate", text=text) == expected


def test_the_worse_of_name_and_description_counts() -> None:
    assert effect("get_book", text="Deletes a book.") == "destroy"
    assert effect("delete_book", text="Returns a book.") == "destroy"


def test_a_description_counts_as_far_as_its_beginning() -> None:
    assert effect("zap", text="Gets it. " + "x " * 2000 + ". It deletes all.") == "read"


def test_arguments_show_what_words_hide() -> None:
    assert effect("get_report", "report_id", "recipients") == "egress"
    assert effect("lookup", "script") == "execute"
    assert effect("create_entry", "account", "amount") == "pay"
    assert effect("create_entry", "amount") == "write"
    assert effect("query", "sql") == "execute"
    assert effect("query", "sql", reads=True) == "read"


def test_an_annotated_read_is_one_unless_the_words_say_worse() -> None:
    read = suggestion_for(tool("frobnicate", reads=True))
    assert (read.effect, read.lowers) == (Effect.READ, ())
    sends = suggestion_for(tool("send_report", "to", reads=True))
    assert (sends.effect, sends.lowers) == (Effect.EGRESS, ())
    said_otherwise = suggestion_for(tool("send_report", "to", reads=False))
    assert said_otherwise.lowers == ("effect", "destination")
    assert suggestion_for(tool("get_report", reads=True), annotated=False).lowers == ("effect",)


@pytest.mark.parametrize("hint", [1, "true", None, [], {}])
def test_what_is_not_truly_annotated_as_a_read_is_a_question(hint: Any) -> None:
    definition = tool("get_report") | {"annotations": {"readOnlyHint": hint}}
    assert suggestion_for(definition).lowers == ("effect",)
    assert suggestion_for(tool("get_report") | {"annotations": hint}).lowers == ("effect",)


@pytest.mark.parametrize(
    ("name", "lowers"),
    [
        ("get_x", ("effect",)),
        ("rename_x", ("effect",)),
        ("send_x", ("effect",)),
        ("buy_x", ("effect",)),
        ("delete_x", ()),
        ("grant_x", ("effect",)),
        ("execute_x", ("effect",)),
        ("frobnicate", ()),
    ],
)
def test_what_is_refused_less_than_what_nobody_labelled_is_a_question(
    name: str, lowers: tuple[str, ...]
) -> None:
    assert suggestion_for(tool(name)).lowers == lowers


def test_whom_a_call_reaches_is_its_destination_and_the_rest_is_what_it_carries() -> None:
    found = suggestion_for(
        tool("send_mail", "to", "cc", "subject", "body", urgent={"type": "boolean"})
    )
    assert (found.destination, found.payload) == (("to", "cc"), ("subject", "body"))


@pytest.mark.parametrize(
    ("name", "arguments", "destination", "payload"),
    [
        ("post_message", ("channel_id", "text"), ("channel_id",), ("text",)),
        ("write_file", ("path", "content"), ("path",), ("content",)),
        ("create_issue", ("owner", "repo", "title"), ("owner", "repo"), ("title",)),
        ("transfer", ("from_account", "to_account"), ("to_account",), ("from_account",)),
        ("delete_user_file", ("user", "file_id", "reason"), ("user", "file_id"), ()),
        ("update_profile", ("first_name", "street", "note"), ("first_name", "street"), ("note",)),
        ("update_table", ("table_name", "value"), ("table_name",), ("value",)),
        ("get_page", ("page_id", "user"), (), ()),
        ("fetch", ("url", "body", "timeout"), ("url",), ("body", "timeout")),
        ("frobnicate", ("user", "text"), ("user",), ()),
        ("create_page", ("parent_uid", "limit"), ("parent_uid",), ("limit",)),
    ],
)
def test_arguments_are_told_apart_by_their_last_words(
    name: str, arguments: tuple[str, ...], destination: tuple[str, ...], payload: tuple[str, ...]
) -> None:
    found = suggestion_for(tool(name, *arguments))
    assert (found.destination, found.payload) == (destination, payload)


def test_schemas_tell_more_than_names() -> None:
    found = suggestion_for(
        tool(
            "send",
            goes={"type": "string", "format": "email"},
            to={"type": "string", "format": "date-time"},
            channel={"enum": ["a", "b"]},
            account={"type": "number"},
            copies={"anyOf": [{"type": "array", "items": {"format": "email"}}, {"type": "null"}]},
            other={"$ref": "#/$defs/mail"},
        )
    )
    assert found.destination == ("goes", "copies")
    assert found.payload == ("to", "account", "other")


def test_references_inside_of_a_schema_are_followed() -> None:
    definition = tool("send", other={"$ref": "#/$defs/mail"}, odd={"$ref": "https://a.example"})
    definition["inputSchema"]["$defs"] = {"mail": {"type": "string", "format": "email"}}
    found = suggestion_for(definition)
    assert (found.destination, found.payload) == (("other",), ("odd",))


def test_an_output_schema_says_which_fields_hold_identifiers() -> None:
    output = {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "senderId": {"type": "integer"},
                        "sender": STRING,
                        "subject": STRING,
                        "web": {"type": "string", "format": "uri"},
                        "state": {"type": "string", "enum": ["open"]},
                        "participants": {"type": "array", "items": STRING},
                        "owner": {"type": "object", "properties": {"login": STRING}},
                        "a b": {"type": "object", "properties": {"id": STRING}},
                        "id": {"type": "boolean"},
                        "valid": {"type": ["string", "null"]},
                    },
                },
            },
            "by_key": {
                "type": "object",
                "additionalProperties": {"format": "uuid", "type": "string"},
            },
        },
    }
    found = suggestion_for(tool("list_mail", reads=True, output=output))
    assert found.typed == (
        "$.by_key[*]",
        "$.items[*].senderId",
        "$.items[*].sender",
        "$.items[*].web",
        "$.items[*].state",
        "$.items[*].participants[*]",
        "$.items[*].owner.login",
    )
    assert found.lowers == ("typed",)


def test_schemas_without_end_are_read_to_a_limit() -> None:
    node: dict[str, Any] = {"$ref": "#/$defs/n"}
    inner = {"anyOf": [node] * 50, "items": node, "type": "string"}
    many = {f"x{i}_id": inner for i in range(500)}
    output = {"$defs": {"n": {**inner, "properties": many}}, **node}
    found = suggestion_for(tool("get", output=output)).typed
    assert found == tuple(f"$.x{i}_id" for i in range(30))
    flat = {"properties": {f"id{i}": STRING for i in range(500)}}
    assert len(suggestion_for(tool("get", output=flat)).typed) == 64
    assert suggestion_for(tool("send", to=output)).destination == ("to",)


def test_of_many_arguments_the_first_count() -> None:
    found = suggestion_for(tool("send", *(f"text{i}" for i in range(500)), "to"))
    assert (found.destination, len(found.payload)) == ((), 128)
    assert suggestion_for(tool("send", "a" * 513, "to")).destination == ("to",)


@pytest.mark.parametrize("schema", [None, 7, [], {}, {"properties": []}, {"properties": {"": {}}}])
def test_schemas_that_are_none_suggest_nothing(schema: Any) -> None:
    found = suggestion_for({"name": "send", "inputSchema": schema, "outputSchema": schema})
    assert (found.destination, found.payload, found.typed) == ((), (), ())


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("get_secrets", None, SECRET),
        ("read_vault", "Returns passwords.", SECRET),
        ("list_api_keys", None, SECRET),
        ("create_access_token", None, SECRET),
        ("read_vault", "Returns the private key of a user", SECRET),
        ("read_page", "Returns a page. Needs an API key.", None),
        ("read_page", "Returns a page whose author has set no password", None),
        ("get_key_events", None, None),
        ("list_tokens", None, None),
        ("list_permissions", None, None),
        ("create_role", None, None),
        ("update_password", None, None),
        ("delete_secret", None, None),
    ],
)
def test_results_that_give_access_are_secret_and_no_other_label_is_suggested(
    name: str, text: str | None, expected: Any
) -> None:
    assert suggestion_for(tool(name, text=text)).result == expected


def test_the_name_of_a_server_says_nothing_of_its_tools() -> None:
    names = ("post-office_get_box", "post-office")
    found = suggest("post-office", {name: tool(name) for name in names})
    assert [each.effect for each in found.values()] == [Effect.READ, Effect.EGRESS]


def test_only_what_lowers_nothing_is_live() -> None:
    suggestion = Suggestion(
        effect=Effect.EGRESS,
        destination=("to",),
        payload=("body",),
        typed=("$.id",),
        result=SECRET,
    )
    live = ToolRule(payload=("body",), result=SECRET)
    whole = ToolRule(
        effect=Effect.EGRESS,
        destination=("to",),
        payload=("body",),
        result=SECRET,
        typed=("$.id",),
    )
    assert (live_rule(suggestion), accepted_rule(suggestion)) == (live, whole)
    annotated = replace(suggestion, unlabelled=Effect.READ)
    assert (suggestion.lowers, annotated.lowers) == (
        ("effect", "destination", "typed"),
        ("typed",),
    )
    assert live_rule(annotated) == replace(whole, typed=())


def test_of_two_definitions_the_worse_counts_and_a_question_of_one_is_one() -> None:
    annotated = suggestion_for(tool("send", "to", reads=True))
    plain = suggestion_for(tool("send", "to", "body"))
    both = joined([annotated, plain])
    assert annotated.lowers == ()
    assert both == Suggestion(
        effect=Effect.EGRESS,
        destination=("to",),
        payload=("body",),
        because=("name: send",),
    )
    assert both.lowers == plain.lowers == ("effect", "destination")
    unknown = joined([annotated, suggestion_for(tool("zap"))])
    assert (unknown.effect, unknown.lowers) == (Effect.DESTROY, ("destination",))
    assert joined([plain, plain]) is plain
    secret = Suggestion(result=SECRET, typed=("$.a",))
    assert joined([plain, secret]).result == joined([secret, plain]).result == SECRET


def test_it_says_which_words_it_comes_from() -> None:
    found = suggestion_for(tool("get_secret", "recipients", text="Sends a secret."))
    assert found.because == ("description: send", "argument: recipients")
    read = suggestion_for(tool("get_secret", reads=True))
    assert read.because == (
        "name: get_secret",
        "annotations: readOnlyHint",
        "results may hold what gives access: secret",
    )
