"""A stream is cut into events whose bytes are still exactly the stream's."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.calls import ServerEvent
from gateway.errors import LimitExceeded
from gateway.wire.jsontext import WireLimits
from gateway.wire.sse import EventReader, data_event, event_id, retry_s, with_data

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
    [b": keep-alive\n\n", b"id: 1\ndata:\n\n", b"id: 1\ndata\n\n", b"retry: 5\n\n", b"\n", b"Data: 1\n\n", b" data: 1\n\n"],
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


def test_a_rewritten_event_keeps_its_id_and_loses_what_might_hide_data():
    raw = (
        b"\xef\xbb\xbf: note\xe2\x80\xa8data: evil\nid: 7\nid: 8\xe2\x80\xa8data: evil\n"
        b"event: message\nretry: 5\nx: y\ndata: 1\ndata: 2\n\n"
    )
    rewritten = with_data(ServerEvent(raw=raw, data=b"1\n2"), b'{"b":\n2}')
    assert rewritten == ServerEvent(
        raw=b'id: 7\nevent: message\nretry: 5\ndata: {"b":\ndata: 2}\n\n', data=b'{"b":\n2}'
    )


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
