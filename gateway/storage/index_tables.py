"""The tables of the log's index, and the statements by which a range of records gets into them.

Everything here is computed by SQLite alone: no text of a record is ever Python's, so that a busy
gateway's calls do not wait for the interpreter while its index is made.
"""

VERSION = 1
"""Of the tables; an index of another one is made anew."""

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

MARK_CHARACTERS = 18
"""Characters of an identifier or a hash that are kept, its last ones: 72 bits of a hash."""
BUCKET_CHARACTERS = 3
"""The last of those, by which marks that were put away are found."""
LEAF_DIGITS = 12

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
    decision_id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

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
    PRIMARY KEY (source, server, target, effect, hour)
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

CREATE VIRTUAL TABLE reasons USING fts5 (words, content = '');
"""

TEMPORARY = """
CREATE TEMP TABLE calls (
    leaf_index INTEGER PRIMARY KEY,
    time_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    principal TEXT NOT NULL,
    client TEXT NOT NULL,
    server TEXT NOT NULL,
    target TEXT NOT NULL,
    effect TEXT NOT NULL,
    refused INTEGER NOT NULL,
    decision_id TEXT
) STRICT;

CREATE TEMP TABLE moved (
    leaf_index INTEGER NOT NULL,
    source TEXT NOT NULL,
    outside INTEGER NOT NULL,
    PRIMARY KEY (leaf_index, source)
) STRICT, WITHOUT ROWID;
"""

_RANGE = "leaf_index > :after AND leaf_index <= :through AND json_valid(body)"

# A call is counted once, by what is recorded before it goes out or else by its refusal. What is
# recorded when it has come back says nothing new here.
_CALLS = (
    "DELETE FROM temp.calls",
    f"""
    INSERT INTO temp.calls
    SELECT leaf_index, time_us, kind, ifnull(principal, ''),
        ifnull(CAST(json_extract(body, '$.client') AS TEXT), ''), ifnull(server, ''), target,
        ifnull(CAST(json_extract(body, '$.effect') AS TEXT), ''),
        verdict IS NOT NULL AND verdict <> 'allow', decision_id
    FROM log.audit
    WHERE {_RANGE} AND kind IN ('intent', 'outcome') AND target IS NOT NULL
    """,  # noqa: S608 - fixed text, so for all of these
    """
    INSERT OR IGNORE INTO under_way
    SELECT decision_id FROM temp.calls WHERE kind = 'intent' AND decision_id IS NOT NULL
    """,
    """
    UPDATE temp.calls SET kind = 'answer'
    WHERE kind = 'outcome' AND decision_id IN (SELECT decision_id FROM under_way)
    """,
    """
    DELETE FROM under_way
    WHERE decision_id IN (SELECT decision_id FROM temp.calls WHERE kind = 'answer')
    """,
    "DELETE FROM temp.calls WHERE kind = 'answer'",
)

_NAMES = (
    """
    INSERT OR IGNORE INTO names (name)
    SELECT principal FROM temp.calls UNION SELECT client FROM temp.calls
    UNION SELECT server FROM temp.calls UNION SELECT target FROM temp.calls
    UNION SELECT source FROM temp.moved UNION SELECT ''
    """,
)

_MOVED = (
    "DELETE FROM temp.moved",
    """
    INSERT OR IGNORE INTO temp.moved
    SELECT c.leaf_index, CAST(json_extract(s.value, '$.server') AS TEXT),
        json_array_length(a.body, '$.destinations') IS NULL
        OR json_array_length(a.body, '$.destinations') = 0
        OR EXISTS (
            SELECT 1 FROM json_each(a.body, '$.destinations') AS d
            WHERE d.type <> 'object' OR json_extract(d.value, '$.proof') IS NOT 'tenant'
        )
    FROM temp.calls AS c
    JOIN log.audit AS a ON a.leaf_index = c.leaf_index
    JOIN json_each(a.body, '$.sources') AS s
    WHERE c.effect NOT IN ('', 'read') AND s.type = 'object'
        AND json_extract(s.value, '$.server') IS NOT NULL
        AND (c.server <> json_extract(s.value, '$.server') OR c.effect = 'egress')
    """,
)

_ADDED = "calls = calls + excluded.calls, refused = refused + excluded.refused"
_LATEST = "last_us = max(last_us, excluded.last_us)"


def _totals(subject: str, span_us: int, within: str, name: str) -> str:
    span = "hour" if span_us == HOUR_US else "day"
    return f"""
    INSERT INTO totals
    SELECT '{subject}', '{span}', time_us / {span_us}, w.id, n.id, count(*), sum(refused),
        max(time_us)
    FROM temp.calls JOIN names AS w ON w.name = {within} JOIN names AS n ON n.name = {name}
    GROUP BY 3, 4, 5
    ON CONFLICT DO UPDATE SET {_ADDED}, {_LATEST}
    """  # noqa: S608 - fixed text


_COUNTS = (
    f"""
    INSERT INTO used
    SELECT s.id, t.id, time_us / {HOUR_US}, p.id, c.id, count(*), sum(refused), max(time_us)
    FROM temp.calls
    JOIN names AS s ON s.name = server JOIN names AS t ON t.name = target
    JOIN names AS p ON p.name = principal JOIN names AS c ON c.name = client
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT DO UPDATE SET {_ADDED}, {_LATEST}
    """,  # noqa: S608
    *(
        _totals(subject, span_us, within, name)
        for span_us in (HOUR_US, DAY_US)
        for subject, within, name in (
            ("principal", "''", "principal"),
            ("client", "''", "client"),
            ("tool", "server", "target"),
        )
    ),
    f"""
    INSERT INTO refusals
    SELECT time_us / {HOUR_US}, kind, verdict, ifnull(code, ''), ifnull((
            SELECT json_extract(r.value, '$.code') FROM json_each(body, '$.reasons') AS r
            WHERE r.type = 'object' AND json_extract(r.value, '$.code') IS NOT code
            AND json_type(r.value, '$.code') = 'text' LIMIT 1
        ), ifnull(code, '')), count(*), max(time_us)
    FROM log.audit
    WHERE {_RANGE} AND verdict IN ('deny', 'ask', 'error') AND kind <> 'approval'
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT DO UPDATE SET records = records + excluded.records, {_LATEST}
    """,  # noqa: S608
    f"""
    INSERT INTO flow_counts
    SELECT f.id, s.id, t.id, effect, time_us / {HOUR_US}, count(*), sum(refused), sum(outside),
        max(time_us)
    FROM temp.moved JOIN temp.calls USING (leaf_index) JOIN names AS f ON f.name = source
    JOIN names AS s ON s.name = server JOIN names AS t ON t.name = target
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT DO UPDATE SET {_ADDED}, outside = outside + excluded.outside, {_LATEST}
    """,  # noqa: S608
    """
    INSERT OR IGNORE INTO flows
    SELECT f.id, time_us, leaf_index, NOT refused, outside
    FROM temp.moved JOIN temp.calls USING (leaf_index) JOIN names AS f ON f.name = source
    """,
)

_HASHED = "e.type = 'text' AND e.value GLOB '[hb][0-9]*:*' AND length(e.value) > 60"
_MARKS = (
    f"""
    INSERT OR IGNORE INTO fresh_marks
    SELECT substr(e.value, -{MARK_CHARACTERS}), leaf_index
    FROM log.audit, json_each(json_array(
        decision_id, json_extract(body, '$.approval_id'), json_extract(body, '$.arguments_hmac'),
        json_extract(body, '$.result_hmac'),
        CASE kind WHEN 'policy' THEN json_extract(body, '$.policy_digest') END
    )) AS e
    WHERE {_RANGE} AND e.type = 'text'
    """,  # noqa: S608
    *(
        f"""
        INSERT OR IGNORE INTO fresh_marks
        SELECT substr(e.value, -{MARK_CHARACTERS}), c.leaf_index
        FROM temp.calls AS c JOIN log.audit AS a ON a.leaf_index = c.leaf_index
        JOIN json_tree(a.body, '$.{member}') AS e
        WHERE {_HASHED}
        """  # noqa: S608
        for member in ("arguments", "destinations")
    ),
)

_REASONS = (
    f"""
    INSERT INTO reasons (rowid, words)
    SELECT leaf_index, words FROM (
        SELECT leaf_index, (
            SELECT group_concat(
                ifnull(json_extract(r.value, '$.code'), '') || ' '
                || ifnull(json_extract(r.value, '$.message'), ''), ' '
            )
            FROM json_each(body, '$.reasons') AS r WHERE r.type = 'object'
        ) AS words
        FROM log.audit WHERE {_RANGE}
    ) WHERE words IS NOT NULL
    """,  # noqa: S608
)

STEPS = (*_CALLS, *_MOVED, *_NAMES, *_COUNTS, *_MARKS, *_REASONS)
"""In one transaction, in this order, for the records after `:after` up to `:through`."""

PUT_AWAY = (
    f"""
    INSERT INTO marks
    SELECT substr(mark, -{BUCKET_CHARACTERS}), :through,
        group_concat(printf('%{MARK_CHARACTERS}s%0{LEAF_DIGITS}d', mark, leaf_index), '')
    FROM fresh_marks GROUP BY 1
    """,  # noqa: S608
    "DELETE FROM fresh_marks",
)
"""Moves marks to where looking for one reads little: each alone would lie on a page of its own."""

FORGET = (
    f"DELETE FROM used WHERE hour < :time_us / {HOUR_US}",  # noqa: S608
    f"DELETE FROM totals WHERE span = 'hour' AND bucket < :time_us / {HOUR_US}",  # noqa: S608
    f"DELETE FROM totals WHERE span = 'day' AND bucket < :time_us / {DAY_US}",  # noqa: S608
    f"DELETE FROM refusals WHERE hour < :time_us / {HOUR_US}",  # noqa: S608
    f"DELETE FROM flow_counts WHERE hour < :time_us / {HOUR_US}",  # noqa: S608
    # By their place: a call has the time at which it began, and stands where it was recorded.
    "DELETE FROM flows WHERE leaf_index < :first",
    "DELETE FROM marks WHERE through < :first",
    "DELETE FROM fresh_marks WHERE leaf_index < :first",
)
"""Drops what was counted of records that the log has no more; `:first` is its first one."""
