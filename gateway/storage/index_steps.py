"""The statements by which a range of records gets into the log's index, and leaves it.

Everything here is computed by SQLite alone: no text of a record is ever Python's, so that a busy
gateway's calls do not wait for the interpreter while its index is made.
"""

from gateway.storage.index_tables import (
    BUCKET_CHARACTERS,
    DAY_US,
    HOUR_US,
    LEAF_DIGITS,
    MARK_CHARACTERS,
)

_RANGE = "leaf_index > :after AND leaf_index <= :through"

# A record's text is read once, by this; SQLite would do so anew in each of the statements below.
TAKE = (
    "DELETE FROM temp.taken",
    f"""
    INSERT INTO temp.taken
    SELECT leaf_index, time_us, kind, ifnull(principal, ''),
        ifnull(CAST(json_extract(body, '$.client') AS TEXT), ''), ifnull(server, ''), target,
        ifnull(CAST(json_extract(body, '$.effect') AS TEXT), ''), verdict, code, decision_id,
        ifnull(CAST(json_extract(body, '$.task') AS TEXT), ''), json_extract(body, '$.approval_id'), json_extract(body, '$.arguments_hmac'),
        json_extract(body, '$.result_hmac'),
        CASE kind WHEN 'policy' THEN json_extract(body, '$.policy_digest') END,
        body -> '$.reasons', body -> '$.sources', body -> '$.destinations'
    FROM log.audit WHERE {_RANGE} AND json_valid(body)
    """,  # noqa: S608 - fixed text, so for all of these
)
"""Reads the records after `:after` up to `:through`; what is no JSON is left out."""

_SPANS = (
    """
    INSERT INTO spans
    SELECT leaf_index - leaf_index % :span, min(time_us), max(time_us)
    FROM temp.taken WHERE 1 GROUP BY 1
    ON CONFLICT DO UPDATE SET oldest_us = min(oldest_us, excluded.oldest_us),
        newest_us = max(newest_us, excluded.newest_us)
    """,
)

# A call is counted once, by what is recorded before it goes out or else by its refusal. What is
# recorded when it has come back says nothing new here.
_ANSWER = "kind = 'outcome' AND decision_id IN (SELECT decision_id FROM under_way)"
_CALL = f"kind IN ('intent', 'outcome') AND target IS NOT NULL AND ({_ANSWER}) IS NOT 1"
_NAMED = ("principal", "client", "server", "target")


def _unknown(role: str) -> str:
    return f"""
    SELECT t.{role} FROM temp.calls AS c JOIN temp.taken AS t ON t.leaf_index = c.leaf_index
    WHERE c.{role} IS NULL
    """  # noqa: S608 - fixed text


def _as_known(role: str) -> str:
    return f"""
    {role} = ifnull({role}, (
        SELECT n.id FROM temp.taken AS t JOIN names AS n ON n.name = t.{role}
        WHERE t.leaf_index = calls.leaf_index
    ))
    """  # noqa: S608 - fixed text


_CALLS = (
    """
    INSERT OR IGNORE INTO under_way
    SELECT decision_id, leaf_index FROM temp.taken
    WHERE kind = 'intent' AND target IS NOT NULL AND decision_id IS NOT NULL
    """,
    "DELETE FROM temp.calls",
    f"""
    INSERT INTO temp.calls
    SELECT leaf_index, time_us, p.id, c.id, s.id, t.id, effect, task,
        verdict IS NOT NULL AND verdict <> 'allow',
        ifnull(json_array_length(destinations), 0) = 0 OR EXISTS (
            SELECT 1 FROM json_each(destinations) AS d
            WHERE d.type <> 'object' OR json_extract(d.value, '$.proof') IS NOT 'tenant'
        )
    FROM temp.taken
    LEFT JOIN names AS p ON p.name = principal LEFT JOIN names AS c ON c.name = client
    LEFT JOIN names AS s ON s.name = server LEFT JOIN names AS t ON t.name = target
    WHERE {_CALL}
    """,  # noqa: S608
    # Few names are new: only where one was not there it is looked for again.
    f"INSERT OR IGNORE INTO names (name) {' UNION '.join(map(_unknown, _NAMED))} UNION SELECT ''",
    f"""
    UPDATE temp.calls SET {", ".join(map(_as_known, _NAMED))}
    WHERE {" OR ".join(f"{role} IS NULL" for role in _NAMED)}
    """,  # noqa: S608
    """
    DELETE FROM under_way WHERE decision_id IN (
        SELECT decision_id FROM temp.taken WHERE kind = 'outcome' AND target IS NOT NULL
    )
    """,
)

_MOVED = (
    "DELETE FROM temp.moved",
    """
    INSERT OR IGNORE INTO temp.moved
    SELECT leaf_index, source FROM (
        SELECT c.leaf_index, CAST(json_extract(s.value, '$.server') AS TEXT) AS source
        FROM temp.calls AS c
        JOIN temp.taken AS t ON t.leaf_index = c.leaf_index
        JOIN json_each(t.sources) AS s
        WHERE c.effect NOT IN ('', 'read') AND s.type = 'object' LIMIT -1
    ) WHERE source IS NOT NULL
    """,
    "INSERT OR IGNORE INTO names (name) SELECT DISTINCT source FROM temp.moved",
)

_ADDED = "calls = calls + excluded.calls, refused = refused + excluded.refused"
_LATEST = "last_us = max(last_us, excluded.last_us)"


def _summed(subject: str, within: str, name: str, *, where: str = "1") -> str:
    return f"""
    INSERT INTO temp.sums
    SELECT '{subject}', time_us / {HOUR_US}, {within}, {name}, count(*), sum(refused), max(time_us)
    FROM temp.calls WHERE {where} GROUP BY 2, 3, 4
    """  # noqa: S608 - fixed text


_NOBODY = "(SELECT id FROM names WHERE name = '')"
_FROM_ELSEWHERE = """
    FROM temp.moved AS m JOIN temp.calls AS c ON c.leaf_index = m.leaf_index
    JOIN names AS f ON f.name = m.source
    WHERE f.id <> c.server OR c.effect = 'egress'
"""
_COUNTS = (
    f"""
    INSERT INTO used
    SELECT server, target, time_us / {HOUR_US}, principal, client, count(*), sum(refused),
        max(time_us)
    FROM temp.calls WHERE 1 GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT DO UPDATE SET {_ADDED}, {_LATEST}
    """,  # noqa: S608
    "DELETE FROM temp.sums",
    _summed("principal", _NOBODY, "principal"),
    _summed("client", _NOBODY, "client"),
    _summed("tool", "server", "target"),
    # By client, of the calls that declare no task, and of those whose task does not count.
    _summed("undeclared", _NOBODY, "client", where="task = ''"),
    _summed("ignored", _NOBODY, "client", where="task = 'ignored'"),
    f"""
    INSERT INTO totals
    SELECT subject, 'hour', hour, within, name, calls, refused, last_us FROM temp.sums WHERE 1
    ON CONFLICT DO UPDATE SET {_ADDED}, {_LATEST}
    """,  # noqa: S608
    f"""
    INSERT INTO totals
    SELECT subject, 'day', hour / {DAY_US // HOUR_US}, within, name, sum(calls), sum(refused),
        max(last_us)
    FROM temp.sums WHERE 1 GROUP BY 1, 3, 4, 5
    ON CONFLICT DO UPDATE SET {_ADDED}, {_LATEST}
    """,  # noqa: S608
    f"""
    INSERT INTO refusals
    SELECT time_us / {HOUR_US}, kind, verdict, ifnull(code, ''), ifnull((
            SELECT json_extract(r.value, '$.code') FROM json_each(reasons) AS r
            WHERE r.type = 'object' AND json_extract(r.value, '$.code') IS NOT code
            AND json_type(r.value, '$.code') = 'text' LIMIT 1
        ), ifnull(code, '')), count(*), max(time_us)
    FROM temp.taken
    WHERE verdict IN ('deny', 'ask', 'error') AND kind <> 'approval'
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT DO UPDATE SET records = records + excluded.records, {_LATEST}
    """,  # noqa: S608
    f"""
    INSERT INTO flow_counts
    SELECT f.id, c.server, c.target, c.effect, c.time_us / {HOUR_US}, count(*), sum(c.refused),
        sum(c.outside), max(c.time_us)
    {_FROM_ELSEWHERE} GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT DO UPDATE SET {_ADDED}, outside = outside + excluded.outside, {_LATEST}
    """,
    f"""
    INSERT OR IGNORE INTO flows
    SELECT f.id, c.time_us, c.leaf_index, NOT c.refused, c.outside {_FROM_ELSEWHERE}
    """,
)


def _marked(member: str) -> str:
    return f"""
    INSERT OR IGNORE INTO fresh_marks
    SELECT substr({member}, -{MARK_CHARACTERS}), leaf_index FROM temp.taken
    WHERE typeof({member}) = 'text'
    """  # noqa: S608


_HASHED = "e.type = 'text' AND e.value GLOB '[hb][0-9]*:*' AND length(e.value) > 60"
_MARKS = (
    *map(_marked, ("decision_id", "approval_id", "arguments_hmac", "result_hmac", "policy_digest")),
    f"""
    INSERT OR IGNORE INTO fresh_marks
    SELECT substr(e.value, -{MARK_CHARACTERS}), c.leaf_index
    FROM temp.calls AS c JOIN log.audit AS a ON a.leaf_index = c.leaf_index
    JOIN json_tree(a.body, '$.arguments') AS e
    WHERE {_HASHED}
    """,  # noqa: S608
    f"""
    INSERT OR IGNORE INTO fresh_marks
    SELECT substr(e.value, -{MARK_CHARACTERS}), c.leaf_index
    FROM temp.calls AS c JOIN temp.taken AS t ON t.leaf_index = c.leaf_index
    JOIN json_tree(t.destinations) AS e
    WHERE {_HASHED}
    """,  # noqa: S608
)

STEPS = (*TAKE, *_SPANS, *_CALLS, *_MOVED, *_COUNTS, *_MARKS)
"""In one transaction, in this order, for the records after `:after` up to `:through`.

`:span` is `SPAN`, here and below.
"""

PUT_AWAY = (
    f"""
    INSERT INTO marks
    SELECT substr(mark, -{BUCKET_CHARACTERS}), :through,
        group_concat(printf('%{MARK_CHARACTERS}s%0{LEAF_DIGITS}d', mark, leaf_index), '')
    FROM fresh_marks GROUP BY 1
    """,  # noqa: S608
    "INSERT INTO put_away VALUES (:through)",
    "DELETE FROM fresh_marks",
)
"""Moves marks to where looking for one reads little: each alone would lie on a page of its own."""

# Each bucket that there is, by a step of the key's from one to the next.
_BUCKETS = """
    WITH RECURSIVE buckets (bucket) AS (
        SELECT min(bucket) FROM marks UNION ALL
        SELECT (SELECT min(bucket) FROM marks WHERE bucket > buckets.bucket) FROM buckets
        WHERE bucket IS NOT NULL
    ) SELECT bucket FROM buckets
"""
_SUBJECTS = "'principal', 'client', 'tool', 'undeclared', 'ignored'"
FORGET = (
    f"""
    DELETE FROM used WHERE (server, target) IN (
        SELECT DISTINCT within, name FROM totals WHERE subject = 'tool' AND span = 'day'
    ) AND hour < :time_us / {HOUR_US}
    """,  # noqa: S608
    f"""
    DELETE FROM flow_counts
    WHERE source IN (SELECT id FROM names) AND hour < :time_us / {HOUR_US}
    """,  # noqa: S608
    f"""
    DELETE FROM totals WHERE subject IN ({_SUBJECTS})
    AND span = 'hour' AND bucket < :time_us / {HOUR_US}
    """,  # noqa: S608
    f"""
    DELETE FROM totals WHERE subject IN ({_SUBJECTS})
    AND span = 'day' AND bucket < :time_us / {DAY_US}
    """,  # noqa: S608
    f"DELETE FROM refusals WHERE hour < :time_us / {HOUR_US}",  # noqa: S608
    # By their place: a call has the time at which it began, and stands where it was recorded.
    """
    DELETE FROM flows WHERE source IN (SELECT id FROM names)
    AND time_us <= (SELECT max(newest_us) FROM spans WHERE begin < :first) AND leaf_index < :first
    """,
    f"""
    DELETE FROM marks WHERE EXISTS (SELECT 1 FROM put_away WHERE through < :first)
    AND bucket IN ({_BUCKETS}) AND through < :first
    """,  # noqa: S608
    "DELETE FROM put_away WHERE through < :first",
    f"""
    UPDATE marks SET entries = kept(entries, :first)
    WHERE bucket IN ({_BUCKETS}) AND through = (SELECT min(through) FROM put_away)
    """,  # noqa: S608
    f"""
    DELETE FROM marks WHERE bucket IN ({_BUCKETS})
    AND through = (SELECT min(through) FROM put_away) AND entries = ''
    """,  # noqa: S608
    "DELETE FROM fresh_marks WHERE leaf_index < :first",
    "DELETE FROM under_way WHERE leaf_index < :first",
    "DELETE FROM spans WHERE begin + :span <= :first",
    # All of them, so that none is left in the unused part of a page either.
    "DELETE FROM temp.names_left",
    f"""
    INSERT INTO temp.names_left SELECT id, name FROM names WHERE name = '' OR id IN (
        SELECT within FROM totals WHERE subject = 'tool' AND span = 'day'
        UNION SELECT name FROM totals
            WHERE subject IN ({_SUBJECTS}) AND span = 'day'
    ) OR EXISTS (SELECT 1 FROM flow_counts AS f WHERE f.source = names.id)
    OR EXISTS (SELECT 1 FROM flows AS f WHERE f.source = names.id)
    """,  # noqa: S608
    "DELETE FROM names",
    "INSERT INTO names SELECT id, name FROM temp.names_left",
    "DELETE FROM temp.names_left",
)
"""Drops what was kept of records that the log has no more; `:first` is its first one. What was
counted in the hour, or the day, in which that one stands stays until the next."""


def kept(entries: str, first: int) -> str:
    """Return those of the marks in `entries` whose record is `first` or behind it; SQL calls this."""
    width = MARK_CHARACTERS + LEAF_DIGITS
    each = (entries[at : at + width] for at in range(0, len(entries), width))
    return "".join(entry for entry in each if int(entry[MARK_CHARACTERS:]) >= first)
