"""What a connection answers by itself, where there is no request to give to anybody."""

from gateway.web.guard import Refused

SLOW_HEAD = Refused(status=408, code="slow_head", text="the request took too long")
LARGE_HEAD = Refused(status=431, code="large_head", text="the request's head is too large")
MALFORMED = Refused(status=400, code="malformed", text="this is no request of HTTP/1.1")
CROWDED = Refused(status=503, code="busy", text="too many requests are half said; say it again")


def said(refused: Refused) -> bytes:
    """Return an answer that refuses, after which the connection is closed."""
    text = refused.text.encode() + b"\n"
    head = (
        f"HTTP/1.1 {refused.status} \r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(text)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + text
