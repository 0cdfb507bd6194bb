"""Signed notes and checkpoints, against a published note and against forgers."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.checkpoint import (
    BadCheckpoint,
    VerifierKey,
    open_checkpoint,
    open_note,
    sign_checkpoint,
    sign_note,
)
from gateway.domain.audit import TreeHead

# The example of the signed note format's specification.
PUBLISHED_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PUBLISHED_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpR"
    "Zb6KE6RyyBwJnAM=\n"
)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
LOG = "douane/0011223344556677"
VERIFIER = VerifierKey.of(LOG, KEY)
ROOT = bytes(range(32, 64))


def test_the_published_note_is_opened():
    text = open_note(PUBLISHED_NOTE, VerifierKey.parse(PUBLISHED_KEY))
    assert text.endswith("then you don't know what your problem is.\n")


def test_the_published_note_with_one_letter_changed_is_refused():
    with pytest.raises(BadCheckpoint, match="does not match"):
        open_note(PUBLISHED_NOTE.replace("If", "if"), VerifierKey.parse(PUBLISHED_KEY))


def test_a_verifier_key_survives_its_own_spelling():
    assert VerifierKey.parse(str(VERIFIER)) == VERIFIER
    assert str(VerifierKey.parse(PUBLISHED_KEY)) == PUBLISHED_KEY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+00000000+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a3+AhpcZQcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a3+ARpc2Q==",
        "PeterNeumann+c74f20a3+*",
    ],
)
def test_what_is_no_verifier_key_is_refused(text):
    with pytest.raises(BadCheckpoint):
        VerifierKey.parse(text)


def test_a_checkpoint_opens_to_the_head_that_was_signed():
    head = sign_checkpoint(LOG, 42, ROOT, KEY)
    assert open_checkpoint(head.note, VERIFIER) == head
    assert head == TreeHead(log_id=LOG, size=42, root=ROOT, note=head.note)
    assert head.note.startswith(
        f"{LOG}\n42\nICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n\n\u2014 {LOG} "
    )


def test_a_checkpoint_that_a_witness_signed_too_still_opens():
    head = sign_checkpoint(LOG, 42, ROOT, KEY)
    witnessed = head.note + "\u2014 witness AAAAAAAA\n"
    assert open_checkpoint(witnessed, VERIFIER).root == ROOT


@pytest.mark.parametrize(
    ("find", "replace"),
    [
        ("\n42\n", "\n43\n"),
        ("\nICEi", "\nICEj"),
        ("\u2014 ", "- "),
        ("\n\n", "\n"),
        (f"\u2014 {LOG}", "\u2014 douane/other"),
    ],
)
def test_a_changed_checkpoint_is_refused(find, replace):
    note = sign_checkpoint(LOG, 42, ROOT, KEY).note
    assert find in note
    with pytest.raises(BadCheckpoint):
        open_checkpoint(note.replace(find, replace), VERIFIER)


def test_a_checkpoint_of_another_key_is_refused():
    with pytest.raises(BadCheckpoint, match="not signed by"):
        open_checkpoint(sign_checkpoint(LOG, 42, ROOT, OTHER_KEY).note, VERIFIER)


@pytest.mark.parametrize(
    "text",
    [
        "another/log\n42\nICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n",
        f"{LOG}\n042\nICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n",
        f"{LOG}\n-1\nICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n",
        f"{LOG}\n\u0664\nICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n",
        f"{LOG}\n42\nICEi\n",
        f"{LOG}\n42\n",
        "\n",
    ],
)
def test_a_signed_note_that_is_no_checkpoint_of_this_log_is_refused(text):
    with pytest.raises(BadCheckpoint):
        open_checkpoint(sign_note(text, LOG, KEY), VERIFIER)


def test_text_that_cannot_be_a_note_is_not_signed():
    with pytest.raises(ValueError, match="ends with a newline"):
        sign_note("text", LOG, KEY)
    with pytest.raises(ValueError, match="no space and no plus"):
        sign_note("text\n", "a+b", KEY)
    with pytest.raises(ValueError, match="no space and no plus"):
        sign_note("text\n", "a b", KEY)
