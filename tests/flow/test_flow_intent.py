"""Whether the user's words ask for what a tool does."""

import pytest

from gateway.domain.labels import Effect
from gateway.flow.intent import done_by, lasts, orders, speaks_of


@pytest.mark.parametrize(
    ("prompt", "tool", "effect"),
    [
        ("Send it to Bob", "send_email", Effect.EGRESS),
        ("Forward this, please", "sendEmail", Effect.EGRESS),
        ("I am SENDING you", "send-email", Effect.EGRESS),
        ("Write an email to Bob", "send_email", Effect.EGRESS),
        ("Who was invited by an email?", "send_email", Effect.EGRESS),
        ("Pay the bill", "transfer_money", Effect.PAY),
        ("What about the invoices?", "transfer_money", Effect.PAY),
        ("Removing old files", "delete_file", Effect.DESTROY),
        ("Cancel my meeting", "delete_event", Effect.DESTROY),
        ("What is in the calendar?", "list_calendar", Effect.READ),
        ("Reschedule it", "reschedule_event", Effect.WRITE),
        ("drop Ruud a line that it's done", "send_mail", Effect.EGRESS),
        ("let the tenant of flat 4 know that it's done", "send_mail", Effect.EGRESS),
        ("get back to Ruud about it", "send_mail", Effect.EGRESS),
        ("get us two of the blue ones", "purchase_item", Effect.PAY),
        ("top the card up with 20 euros", "pay_card", Effect.PAY),
        ("kick the old intern out of the channel", "remove_member", Effect.DESTROY),
        ("take the old page down", "delete_page", Effect.DESTROY),
        ("shoot the new parents some quick note", "post_message", Effect.EGRESS),
        ("bin everything from eduspark", "delete_messages", Effect.DESTROY),
        ("Get rid of the drafts", "delete_draft", Effect.DESTROY),
        ("Put Yusuf Demir down for another", "reserve_title", Effect.PAY),
        ("call the Friday demo off", "cancel_event", Effect.DESTROY),
        ("pass it on to Ada word for word", "send_message", Effect.EGRESS),
        ("Set up a filter for news", "create_filter", Effect.EGRESS),
        ("Our webhooks miss pushes, add one", "create_webhook", Effect.EGRESS),
    ],
)
def test_a_prompt_speaks_of_a_deed_by_its_verb_or_by_what_it_is_known_by(
    prompt: str, tool: str, effect: Effect
) -> None:
    assert speaks_of(prompt, tool, effect)


@pytest.mark.parametrize(
    ("prompt", "tool", "effect"),
    [
        ("", "send_email", Effect.EGRESS),
        ("", "", Effect.EGRESS),
        ("When am I free?", "send_email", Effect.EGRESS),
        ("What is on my list?", "delete_file", Effect.DESTROY),
        ("Show me the file", "delete_file", Effect.DESTROY),
        ("Sender unknown", "send_email", Effect.EGRESS),
        ("What is up?", "frobnicate_thing", Effect.WRITE),
        ("My appointments", "send_appointment", Effect.WRITE),
        ("Pay the bill", "delete_file", Effect.DESTROY),
        ("Is there room in the bin?", "delete_messages", Effect.DESTROY),
        ("Forward her mail to Bob", "create_filter", Effect.EGRESS),
        ("Forward her mail to Bob", "add_forwarding_rule", Effect.EGRESS),
        ("Tell the team that it is out", "create_webhook", Effect.EGRESS),
        ("Bitte \u00fcberweise die Summe an Anna", "send_money", Effect.PAY),
        ("\u8bf7\u628a\u5b83\u53d1\u7ed9\u9648", "send_email", Effect.EGRESS),
        ("x " * 20_000 + "send", "send_email", Effect.EGRESS),
        ("1234 !!", "send_email", Effect.EGRESS),
        ("Answer the customer of ticket 4711", "make_payout", Effect.PAY),
        ("Get all the photos of June", "purchase_item", Effect.PAY),
        ("Turn the heater off in the hall", "submit_reading", Effect.WRITE),
        ("Who is the owner of it, and which member left?", "add_collaborator", Effect.CREDENTIAL),
    ],
)
def test_other_words_ask_for_nothing(prompt: str, tool: str, effect: Effect) -> None:
    assert not speaks_of(prompt, tool, effect)
    assert not orders(prompt, tool)


@pytest.mark.parametrize(
    ("prompt", "tool", "effect"),
    [
        ("Train to Berlin for Priya on 3 Dec. Company card.", "book_train", Effect.PAY),
        ("2 tickets for Saturday, any row", "buy_ticket", Effect.PAY),
        ("New reminder for Friday: water the plants", "create_reminder", Effect.WRITE),
    ],
)
def test_a_thing_alone_asks_for_what_makes_it(prompt: str, tool: str, effect: Effect) -> None:
    assert speaks_of(prompt, tool, effect)


@pytest.mark.parametrize(
    ("prompt", "tool", "effect"),
    [
        ("Train to Berlin for Priya", "cancel_train", Effect.DESTROY),
        ("Train to Berlin for Priya", "share_train", Effect.CREDENTIAL),
        ("Train to Berlin for Priya?", "book_train", Effect.PAY),
        ("Train to Berlin was late. When do I arrive?", "book_train", Effect.PAY),
        ("Which of them takes the train to Berlin", "book_train", Effect.PAY),
        ("Hotel in Lisbon for Priya", "book_train", Effect.PAY),
    ],
)
def test_a_thing_alone_asks_for_nothing_else(prompt: str, tool: str, effect: Effect) -> None:
    assert not speaks_of(prompt, tool, effect)


def test_a_verb_that_nobody_listed_asks_for_itself() -> None:
    assert speaks_of("Frobnicate the thing", "frobnicate_thing", Effect.WRITE)
    assert orders("Frobnicate the things", "frobnicate_thing")


@pytest.mark.parametrize(
    ("prompt", "tool", "told"),
    [
        ("Send an email to Bob", "send_email", True),
        ("Write an email to Bob", "send_email", True),
        ("Share the emails", "send_email", True),
        ("Who was invited by an email?", "send_email", False),
        ("Send it to Bob", "send_email", False),
        ("Sending an email", "send_email", False),
        ("Post it", "post", True),
        ("An email", "send_email", False),
    ],
)
def test_to_order_is_to_name_the_deed_and_the_thing(prompt: str, tool: str, told: bool) -> None:
    assert orders(prompt, tool) is told


def test_only_a_read_is_asked_for_by_what_it_reads() -> None:
    assert speaks_of("My transactions", "list_transactions", Effect.READ)
    assert not speaks_of("My transactions", "adjust_transactions", Effect.WRITE)


def test_a_huge_prompt_is_read_up_to_a_size() -> None:
    assert not speaks_of("a " * 500_000 + "send", "send_email", Effect.EGRESS)
    assert speaks_of("send " + "a " * 500_000, "send_email", Effect.EGRESS)


@pytest.mark.parametrize(
    ("prompt", "tool", "effect"),
    [
        ("Check out the cart", "checkout", Effect.PAY),
        ("Refer her to a specialist", "referral_send", Effect.EGRESS),
        ("Cancel it", "appointments_cancel", Effect.DESTROY),
        ("Answer the letter in my inbox", "inbox_reply", Effect.EGRESS),
        ("Update the file", "create_or_update_file", Effect.WRITE),
        ("Invite her", "send_invitation", Effect.WRITE),
    ],
)
def test_a_tools_own_words_are_told_by_their_roots(prompt: str, tool: str, effect: Effect) -> None:
    assert speaks_of(prompt, tool, effect)


def test_what_a_call_chooses_from_its_definition_says_what_is_done() -> None:
    about = {
        "inputSchema": {"properties": {"state": {"enum": ["open", "closed", "EUR"]}, "note": {}}}
    }
    for arguments, said in (
        ({"state": "closed"}, ["closed"]),
        ({"state": "EUR"}, []),
        ({"state": "close it"}, []),
        ({"note": "closed"}, []),
    ):
        assert list(done_by(arguments, about)) == said
    assert list(done_by({"state": "closed"}, {"inputSchema": None})) == []
    assert speaks_of("Close 397", "update_issue", Effect.WRITE, done=("closed",))
    assert not speaks_of("Look at 397", "update_issue", Effect.WRITE, done=("closed",))


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("create_filter", True),
        ("add_mail_rule", True),
        ("updateWebhooks", True),
        ("set_auto_reply", False),
        ("send_email", False),
        ("filter_rows", False),
        ("forward_mail", False),
    ],
)
def test_what_a_tool_sets_up_goes_on_by_itself(tool: str, told: bool) -> None:
    assert lasts(tool) is told
