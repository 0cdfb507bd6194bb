"""A stream is cut into events whose bytes are still exactly the stream's."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.calls import ServerEvent
from gateway.errors import LimitExceeded
from gateway.wire.jsontext import WireLimits
from gateway.wire.sse import MOST_LINES, EventReader, data_event, event_id, framed, retry_s

LIMITS = WireLimits()


def cut(*chunks: bytes, limits: WireLimits = LIMITS) -> tuple[list[ServerEvent], int]:
    reader = EventReader(limits)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    last, dropped = reader.finish()
    return [*events, *last], dropped


def data(stream: bytes) -> list[bytes | None]:
    return [event.data for event in cut(stream)[0]]


def test_an_event_keeps_its_bytes_and_gives_its_data():
    raw = b'event: message\nid: 7\ndata: {"a":1}\n\n'
    assert cut(raw) == ([ServerEvent(raw=raw, data=b'{"a":1}')], 0)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_r06_each_line_end_ends_a_line(end: bytes):
    stream = end.join([b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert data(stream) == [b"1\n2", b"3"]


def test_r06_line_ends_may_be_mixed():
    assert data(b"data: 1\r\ndata: 2\rdata: 3\n\r\ndata: 4\r\rdata: 5\n\n") == [
        b"1\n2\n3",
        b"4",
        b"5",
    ]


def test_r06_a_byte_order_mark_is_no_part_of_the_first_line():
    stream = b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n"
    events, _ = cut(stream)
    assert [event.data for event in events] == [b"1", None]
    assert b"".join(event.raw for event in events) == stream


@pytest.mark.parametrize(
    "stream",
    [b": still here\n\n", b"id: 1\ndata:\n\n", b"id: 1\ndata\n\n", b"retry: 5\n\n", b"\n", b"Data: 1\n\n", b" data: 1\n\n"],
)  # fmt: skip
def test_comments_and_priming_events_carry_no_data(stream: bytes):
    assert cut(stream) == ([ServerEvent(raw=stream, data=None)], 0)


def test_one_space_behind_the_colon_is_left_out():
    assert data(b"data:1\n\ndata:  2\n\n") == [b"1", b" 2"]


def test_what_is_unfinished_at_the_end_is_dropped_and_counted():
    assert cut(b"data: 1\n\ndata: 2\n") == (
        [ServerEvent(raw=b"data: 1\n\n", data=b"1")],
        len(b"data: 2\n"),
    )


def test_an_event_that_ends_in_cr_waits_for_the_next_byte():
    reader = EventReader(LIMITS)
    assert list(reader.feed(b"data: 1\r\n\r")) == []
    assert list(reader.feed(b"\n")) == [ServerEvent(raw=b"data: 1\r\n\r\n", data=b"1")]
    assert list(reader.feed(b"data: 2\r\r")) == []
    assert reader.finish() == ((ServerEvent(raw=b"data: 2\r\r", data=b"2"),), 0)


@pytest.mark.parametrize("chunk", [b"data: 123456\n\n", b"data: 1234567", b"x" * 100])
def test_an_event_larger_than_the_limit_is_refused(chunk: bytes):
    limits = WireLimits(event_bytes=12)
    reader = EventReader(limits)
    events = reader.feed(b"data: 1\n\n" + chunk)
    assert next(events).data == b"1"
    with pytest.raises(LimitExceeded):
        next(events)


def test_an_event_of_exactly_the_limit_passes():
    event = b"data: 1\n\n"
    assert cut(event, limits=WireLimits(event_bytes=len(event)))[1] == 0


STREAM = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"data: x", b"data:", b":", b"id: 1", b"\xef\xbb\xbf", b"y"])
    | st.binary(max_size=3)
).map(b"".join)  # fmt: skip


@given(STREAM, st.data())
def test_chunks_do_not_matter_and_no_byte_is_lost(stream: bytes, draw: st.DataObject):
    places = draw.draw(st.lists(st.integers(0, len(stream))).map(sorted))
    bounds = [0, *places, len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(bounds)]
    events, dropped = cut(*chunks)
    assert (events, dropped) == cut(stream)
    assert (events, dropped) == cut(*(bytes([octet]) for octet in stream))
    raw = b"".join(event.raw for event in events)
    assert raw == stream[: len(stream) - dropped]


@given(STREAM, st.data())
def test_the_limit_falls_alike_however_the_stream_is_chunked(stream: bytes, draw: st.DataObject):
    limits = WireLimits(event_bytes=draw.draw(st.integers(1, 12)))

    def outcome(*chunks: bytes) -> list[bytes | str]:
        reader = EventReader(limits)
        seen: list[bytes | str] = []
        try:
            for chunk in chunks:
                seen += (event.raw for event in reader.feed(chunk))
            seen += (event.raw for event in reader.finish()[0])
        except LimitExceeded:
            seen.append("too large")
        return seen

    assert outcome(stream) == outcome(*(bytes([octet]) for octet in stream))


def test_an_event_is_written_as_it_is_read():
    event = data_event(b'{"a":1}')
    assert event.raw == b'event: message\ndata: {"a":1}\n\n'
    assert cut(event.raw) == ([event], 0)


@given(
    st.binary().filter(lambda found: b"\r" not in found).filter(lambda found: found[-1:] != b"\n")
)
def test_written_data_comes_back(content: bytes):
    assert data(data_event(content).raw) == [content or None]


@pytest.mark.parametrize(
    ("raw", "data", "sent"),
    [
        (b"event: message\nid: 7\nretry: 5\nx: y\ndata: 1\ndata: 2\n\n", b'{"b":\n2}',
         b'id: 7\nretry: 5\ndata: {"b":\ndata: 2}\n\n'),
        (b"id: 7\r\ndata: {}\r\n\r\n", b"{}", b"id: 7\ndata: {}\n\n"),
        (b"id: 7\ndata:\n\n", None, b"id: 7\ndata:\n\n"),
        (b"id\nretry: 1500\n\n", None, b"id: \nretry: 1500\ndata:\n\n"),
        (b"id: a\0b\nretry: 1e9\ndata: {}\n\n", b"{}", b"data: {}\n\n"),
        (b"retry: 99999999999999999999\ndata: {}\n\n", b"{}", b"retry: 999999999\ndata: {}\n\n"),
        (b"event: endpoint\ndata: {}\n\n", b"{}", b"data: {}\n\n"),
        (b": note\xe2\x80\xa8data: evil\xe2\x80\xa8\xe2\x80\xa8\n\n", None, b": still here\n\n"),
        (b"id: 7\nid: 8\xe2\x80\xa8data: evil\ndata: {}\n\n", b"{}", b"data: {}\n\n"),
        (b"\xef\xbb\xbf: x\x0bdata: evil\ndata: {}\n\n", b"{}", b"data: {}\n\n"),
        (b"x\xc2\x85data: evil\n\n", None, b": still here\n\n"),
        (b"\n", None, b": still here\n\n"),
    ],
)  # fmt: skip
def test_an_event_is_framed_anew(raw: bytes, data: bytes | None, sent: bytes):
    assert framed(ServerEvent(raw=raw, data=data), data) == sent


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"])
def test_no_reader_finds_an_event_within_an_event(end: str):
    text = f"{end}{end}data: {{}}{end}{end}"
    data = json.dumps({"text": text}, ensure_ascii=False).encode()
    for raw in (framed(ServerEvent(raw=b"", data=data), data), data_event(data).raw):
        lines = [line for line in raw.decode().splitlines() if line.startswith("data:")]
        assert len(lines) == 1
        assert json.loads(lines[0].removeprefix("data:")) == {"text": text}


@pytest.mark.parametrize(
    ("raw", "id_", "after_s"),
    [
        (b"id: 7\nretry: 1500\ndata: \n\n", "7", 1.5),
        (b"id:7\r\nretry:0\r\ndata: x\r\n\r\n", "7", 0.0),
        (b"id: a\rid: b\r\r", "b", None),
        (b"id\n\n", "", None),
        (b"id: a\0b\n\n", None, None),
        (b"\xef\xbb\xbfid: 1\n\n", "1", None),
        (b"data: id: 7\nidentity: 8\nretry: soon\n\n", None, None),
        (b": id: 7\nretry: -1\n\n", None, None),
        (b"retry: 99999999999999999999\n\n", None, 999_999.999),
    ],
)
def test_where_and_when_to_come_back(raw: bytes, id_: str | None, after_s: float | None):
    event = ServerEvent(raw=raw, data=None)
    assert (event_id(event), retry_s(event)) == (id_, after_s)


def test_an_event_of_more_lines_than_somebody_reads_is_refused():
    assert len(data(b"data: 1\n" * (MOST_LINES - 1) + b"\n")) == 1
    for end in (b"\n", b"\r"):
        with pytest.raises(LimitExceeded):
            cut((b"data:" + end) * (MOST_LINES + 1) + end)


def test_json_in_more_lines_than_an_event_has_goes_out_in_one():
    text = b"[" + b"\n" * (2 * MOST_LINES) + b"1,\r\n2]"
    event = data_event(text)
    assert event.raw.count(b"data:") == 1
    (read,) = data(event.raw)
    assert json.loads(read or b"") == [1, 2]
