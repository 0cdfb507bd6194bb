"""What words of tool and argument names commonly stand for: data, read by the suggestions.

General English, in the base form, one table a meaning. A word that is missing costs a suggestion
and nothing else, because whatever nobody labels is read at its worst.
"""

import re
from collections.abc import Mapping

from gateway.domain.labels import Effect

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLURAL_END = re.compile(r"(?<=[A-Z])s(?![a-z])")


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of an identifier, in lower case: camelCase, snake_case, kebab-case, dots."""
    if name.islower():  # as most are
        return tuple(_WORD.findall(name))
    return tuple(word.lower() for word in _WORD.findall(_PLURAL_END.sub("", name)))


def singular(word: str) -> str:
    """Return `word` without the ending of an English plural, or of a verb's third person."""
    if word.endswith("ies") and len(word) > _SHORT:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 1:
        return word[:-1]
    return word


_SHORT = 4


def base_of(word: str) -> tuple[str, ...]:
    """Return what verb `word` may be a form of: itself, and the base of a third person or gerund."""
    if word.endswith("ing") and len(word) > _SHORT + 1:
        stem = word[:-3]
        return word, stem, stem + "e", stem[:-1] if stem[-1] == stem[-2] else stem
    return word, singular(word)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(rows: Mapping[Effect, str]) -> dict[str, Effect]:
    return {word: effect for effect, words in rows.items() for word in words.split()}


VERBS = _table(
    {
        Effect.READ: """
            get list search find read fetch retrieve query show describe lookup look browse inspect
            analyze analyse compare summarize summarise calculate compute validate verify explain
            resolve detect ping preview return provide display extract identify determine monitor
            poll wait estimate convert translate parse suggest recommend rank glob grep whoami
            answer research crawl scrape obtain examine discover aggregate audit diagnose track
            """,
        Effect.WRITE: """
            create add update edit write insert append modify change rename save store upsert
            assign unassign mute unmute enable disable configure reschedule merge subscribe
            unsubscribe unpin restore reopen close unlock approve reject click fill drag hover
            navigate resize upgrade install scale rollback register ingest duplicate replace rebase
            sync attach detach unlink activate deactivate apply allocate start stop pause resume
            restart toggle increment migrate initialize follow unfollow react confirm accept decline
            generate remember make press append prepend adjust set
            """,
        Effect.EGRESS: """
            send share publish forward invite notify tweet retweet broadcast upload submit announce
            respond transmit deliver contact push
            """,
        Effect.PAY: """
            pay purchase buy donate withdraw deposit sell reserve rent bid invest remit
            """,
        Effect.DESTROY: """
            delete remove drop destroy purge erase truncate wipe cancel terminate kill uninstall
            unpublish discard reset prune evict trash revoke flush unshare
            """,
        Effect.CREDENTIAL: "grant authorize authorise authenticate login impersonate",
        Effect.EXECUTE: "execute exec eval spawn invoke launch deploy",
    }
)
"""Verbs that are hardly ever anything else."""

VERBS_OR_NOUNS = _table(
    {
        Effect.READ: "view count check export download scan match map diff filter sample stat",
        Effect.WRITE: """
            import index log record link label tag star fork pin like vote draft copy move patch put
            commit lock mark schedule type select archive clone note transfer
            """,
        Effect.EGRESS: "post message email mail comment reply alert",
        Effect.PAY: "order charge refund trade book tip",
        Effect.DESTROY: "clear clean void",
        Effect.EXECUTE: "run trigger",
    }
)
"""Verbs only where they lead: `post_message` posts, `get_post` does not."""

RUNNABLE = _words("""
    code script command shell program javascript python bash sql cypher terminal binary executable
    process job workflow container notebook expression snippet
    """)
"""What somebody can be harmed by when it is run, other than a search that is run."""

COMMANDS = frozenset({"command", "commands", "cmd", "script", "shell", "javascript"})
"""Arguments that are run."""

STATEMENTS = frozenset({"sql", "cypher", "statement"})
"""Arguments that may be run; whether they may also change something is not in their name."""

MONEY = _words(
    "money payment payout transaction fund refund order trade purchase booking reservation"
)
"""To create, schedule or change one of these is to pay."""

ADDRESSED = _words("""
    message email mail sms tweet post comment reply notification invitation invite webhook
    announcement review
    """)
"""To create one of these is to send it."""

SECRETS = _words("password passphrase secret credential apikey passkey totp otp")
SECRET_PAIRS = frozenset(
    {
        *((kind, "key") for kind in _words("api access private ssh signing secret encryption")),
        *((kind, "token") for kind in _words("access auth bearer refresh api session personal")),
        *((verb, "token") for verb in _words("create generate issue mint rotate revoke")),
        ("environment", "variable"),
    }
)
"""Two words beside each other. A key alone may be one of a keyboard, and a token a coin."""

ACCESS = _words("permission privilege mfa")
ACCESS_PAIRS = frozenset(
    (verb, "role") for verb in _words("assign add grant set change update remove create")
)
"""What gives access and need not stay hidden."""

YIELDING = _words("create generate issue mint rotate export reset new")
"""Verbs whose result holds what was made."""

WHO = _words("""
    recipient to cc bcc participant attendee invitee guest email mail phone user username handle
    member assignee reviewer account iban payee beneficiary channel room chat conversation webhook
    url uri host hostname domain endpoint destination owner repo repository group team audience
    receiver wallet contact remote subscriber address company merchant vendor
    """)
"""Last words of arguments that say who is reached."""

OF_SOMEBODY = _words("id key name number address ip handle")
"""Last words after one of `WHO`, which say the same more exactly: `channel_id`."""

ORIGINS = _words("from source sender")
"""First words of arguments that say where something comes from, so not where it goes."""

ADDRESSES = _words("url uri host hostname endpoint webhook domain")
"""Those by which even a read reaches others."""

FILES = _words("path file filename filepath folder directory dir pattern glob ref branch module")
"""Those whose values have dots and slashes and are no hosts."""

PEOPLE = _words("recipient cc bcc participant attendee invitee guest receiver subscriber payee")
"""Arguments that make of whatever is written something that is sent."""

WHAT = _words("""
    id uuid guid uid key slug path file filename filepath folder directory ref sha branch table
    database collection bucket namespace resource ticket page document doc calendar project target
    task list
    """)
"""Last words of arguments that say which thing is affected."""

PERSONAL_NAMES = _words("first last full display middle given family nick")
"""Before `name`, they make of it a property and no identity."""

TEXT = _words("""
    body subject content text message description title comment note caption summary html markdown
    data value attachment payload memo reason detail template query prompt block header param
    parameter field filter instruction date day time start end amount price quantity currency
    """)
"""Last words of arguments that carry content."""

OPTIONS = _words("""
    limit offset page cursor format timeout depth verbose order sort size count width height
    """)
"""Last words of arguments that shape an answer."""

LASTING = _words("""
    filter rule webhook hook automation autoreply autoresponder responder
    delegation delegate trigger
    """)
"""What goes on by itself once it is set up, beyond the task that it is set up in."""

QUANTITIES = _words("""
    amount price cost fee rate discount tax total subtotal sum balance quantity qty count size length
    width height depth weight volume area distance duration second minute hour day week month year
    time date start end begin until since due deadline period interval timeout delay percent
    percentage ratio score rating priority limit offset latitude longitude lat lng lon radius zoom
    temperature brightness speed age capacity adult child night max maximum min minimum
    """)
"""Last words of what holds a number that is one: no place or person is told by it."""

ID_FIELDS = _words("""
    id uuid guid uid sha slug email url uri href login username handle sender from to cc bcc
    participant attendee recipient owner author assignee iban account channel path filename phone
    organizer member
    """)
"""Last words of result fields that hold identifiers."""

ID_FORMATS = frozenset(
    {"email", "idn-email", "uri", "iri", "uuid", "hostname", "idn-hostname", "ipv4", "ipv6"}
)
"""Formats of JSON Schema (2020-12, validation 7.3) for identifiers."""

ADDRESS_FORMATS = frozenset({"uri", "iri", "uri-reference", "hostname", "idn-hostname"})

ASIDES = _words("""
    this the a an tool function api endpoint it is will also use used useful can you to for lets
    allows allow enables which that then please and automatically be helps help your
    """)
"""Words before the verb that a description begins with."""

OF_THE_TOOL = frozenset({"it", "this", "also", "then", "additionally"})
"""First words of sentences that go on about what the tool does."""

JOINING = frozenset({"and", "or", "then", "also"})
