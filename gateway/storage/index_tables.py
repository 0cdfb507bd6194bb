"""The tables of the log's index."""

VERSION = 3
"""Of the tables; an index of another one is made anew."""

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

MARK_CHARACTERS = 18
"""Characters of an identifier or a hash that are kept, its last ones: 72 bits of a hash."""
BUCKET_CHARACTERS = 3
"""The last of those, by which marks that were put away are found."""
LEAF_DIGITS = 12

SPAN = 4096
"""Leaf indexes of which the oldest and the newest time are known."""
PARTITION = 1 << 18
"""Leaf indexes whose reasons' words lie in one table. It is dropped as a whole: SQLite cannot take
single words out of one."""

TABLES = """
CREATE TABLE progress (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    log_id TEXT NOT NULL,
    through INTEGER NOT NULL,
    leaf_hash BLOB NOT NULL,
    first INTEGER NOT NULL
) STRICT;

CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE under_way (
    decision_id TEXT PRIMARY KEY,
    leaf_index INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE spans (
    begin INTEGER PRIMARY KEY,
    oldest_us INTEGER NOT NULL,
    newest_us INTEGER NOT NULL
) STRICT;

CREATE TABLE used (
    server INTEGER NOT NULL,
    target INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    principal INTEGER NOT NULL,
    client INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    PRIMARY KEY (server, target, hour, principal, client)
) STRICT, WITHOUT ROWID;

CREATE TABLE totals (
    subject TEXT NOT NULL,
    span TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    within INTEGER NOT NULL,
    name INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    PRIMARY KEY (subject, span, bucket, within, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE refusals (
    hour INTEGER NOT NULL,
    kind TEXT NOT NULL,
    verdict TEXT NOT NULL,
    code TEXT NOT NULL,
    rule TEXT NOT NULL,
    records INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    PRIMARY KEY (hour, kind, verdict, code, rule)
) STRICT, WITHOUT ROWID;

CREATE TABLE flow_counts (
    source INTEGER NOT NULL,
    server INTEGER NOT NULL,
    target INTEGER NOT NULL,
    effect TEXT NOT NULL,
    hour INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    outside INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    PRIMARY KEY (source, hour, server, target, effect)
) STRICT, WITHOUT ROWID;

CREATE TABLE flows (
    source INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    leaf_index INTEGER NOT NULL,
    allowed INTEGER NOT NULL,
    outside INTEGER NOT NULL,
    PRIMARY KEY (source, time_us, leaf_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE fresh_marks (
    mark TEXT NOT NULL,
    leaf_index INTEGER NOT NULL,
    PRIMARY KEY (mark, leaf_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE marks (
    bucket TEXT NOT NULL,
    through INTEGER NOT NULL,
    entries TEXT NOT NULL,
    PRIMARY KEY (bucket, through)
) STRICT, WITHOUT ROWID;

CREATE TABLE put_away (
    through INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE partitions (
    begin INTEGER PRIMARY KEY,
    through INTEGER NOT NULL
) STRICT;
"""

TEMPORARY = """
CREATE TEMP TABLE taken (
    leaf_index INTEGER PRIMARY KEY,
    time_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    principal TEXT NOT NULL,
    client TEXT NOT NULL,
    server TEXT NOT NULL,
    target TEXT,
    effect TEXT NOT NULL,
    verdict TEXT,
    code TEXT,
    decision_id TEXT,
    task TEXT NOT NULL,
    approval_id ANY,
    arguments_hmac ANY,
    result_hmac ANY,
    policy_digest ANY,
    reasons TEXT,
    sources TEXT,
    destinations TEXT
) STRICT;

CREATE TEMP TABLE calls (
    leaf_index INTEGER PRIMARY KEY,
    time_us INTEGER NOT NULL,
    principal INTEGER,
    client INTEGER,
    server INTEGER,
    target INTEGER,
    effect TEXT NOT NULL,
    task TEXT NOT NULL,
    refused INTEGER NOT NULL,
    outside INTEGER NOT NULL
) STRICT;

CREATE TEMP TABLE moved (
    leaf_index INTEGER NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (leaf_index, source)
) STRICT, WITHOUT ROWID;

CREATE TEMP TABLE sums (
    subject TEXT NOT NULL,
    hour INTEGER NOT NULL,
    within INTEGER NOT NULL,
    name INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    last_us INTEGER NOT NULL
) STRICT;

CREATE TEMP TABLE names_left (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL
) STRICT;
"""
