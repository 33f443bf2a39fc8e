"""Heads of answers, as honest servers write them and as hostile ones do. RFC 9112."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.answer_head import AnswerHead, read_head


def head(*lines: str, first: str = "HTTP/1.1 200 OK") -> bytes:
    return "".join(f"{line}\r\n" for line in (first, *lines)).encode("latin-1")


def test_a_usual_head_is_read() -> None:
    """Names in any case, blanks round a value, and what has no meaning here passed over."""
    read = read_head(head("Content-Type: application/json", "content-LENGTH:  12\t", "Server: a:b é", "X:"))
    assert read == AnswerHead(200, 12, True, {"content-length": "12"})


@pytest.mark.parametrize("first", ["HTTP/1.1 200 OK", "HTTP/1.1 200 ", "HTTP/1.1 200", "HTTP/1.1 200 Böse"])
def test_a_reason_says_nothing(first: str) -> None:
    """ "A client SHOULD ignore the reason-phrase content because it is not a reliable channel" """
    read = read_head(head("Content-Length: 0", first=first))
    assert read is not None
    assert (read.status, read.length) == (200, 0)


@pytest.mark.parametrize(
    ("connection", "stays"),
    [("keep-alive", True), ("Keep-Alive", True), ("close", False), ("x, close", False)],
)
def test_a_server_may_close(connection: str, stays: bool) -> None:
    """Whatever else it says of the connection is taken for that."""
    read = read_head(head("Content-Length: 2", f"Connection: {connection}"))
    assert read is not None
    assert read.stays is stays


def test_a_server_may_say_when_to_come_back() -> None:
    """With a status that is no success."""
    read = read_head(head("Retry-After: 5", "Content-Length: 2", first="HTTP/1.1 429 Too Many Requests"))
    assert read is not None
    assert (read.status, read.headers["retry-after"]) == (429, "5")


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["Content-Length: 2", "Content-Length: 2"],
        ["Content-Length: 2, 2"],
        ["Content-Length: +2"],
        ["Content-Length: -2"],
        ["Content-Length: 0x2"],
        ["Content-Length: 2_0"],
        ["Content-Length: \xb2"],
        ["Content-Length: " + "9" * 13],
        ["Content-Length:"],
        ["Content-Length : 2"],
        [" Content-Length: 2"],
        ["X: a", " Content-Length: 2"],
        ["Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 2"],
        ["Content-Length: 2", "Transfer-Encoding:"],
        ["Content-Length: 2", "Content-Encoding: gzip"],
        ["Content-Length: 2", "no colon"],
        ["Content-Length: 2", ": no name"],
        ["Content-Length: 2", "X: a\rb"],
        ["Content-Length: 2", "X: a\nContent-Length: 3"],
        ["Content-Length: 2", "X: a\0"],
        ["Content-Length: 2", "Ä: a"],
        ["Content-Length: 2", "X: a\x0bContent-Length: 3", "Connection: close", "Connection: close"],
    ],
)
def test_what_leaves_a_doubt_is_not_read(lines: list[str]) -> None:
    """Above all of how long the body is."""
    assert read_head(head(*lines)) is None


@pytest.mark.parametrize(
    "first",
    [
        "HTTP/1.0 200 OK",
        "HTTP/2 200 OK",
        "HTTP/1.1 100 Continue",
        "HTTP/1.1 101 Switching Protocols",
        "HTTP/1.1 204 No Content",
        "HTTP/1.1 304 Not Modified",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 600 No",
        "http/1.1 200 OK",
        "PUT / HTTP/1.1",
        "",
        "HTTP/1.1 200 O\rK",
        " HTTP/1.1 200 OK",
    ],
)
def test_what_is_no_final_answer_of_this_version_is_not_read(first: str) -> None:
    """Nor one that has no body whatever it says of a length."""
    assert read_head(head("Content-Length: 2", first=first)) is None


@given(st.binary(max_size=200))
def test_rubbish_is_not_read(rubbish: bytes) -> None:
    """And raises nothing."""
    assert read_head(rubbish) is None


@given(st.binary(max_size=50).filter(lambda given: b"\n" not in given))
def test_what_stands_beside_a_length_does_not_change_it(value: bytes) -> None:
    """However it is written, or nothing is read."""
    read = read_head(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: " + value + b"\r\n")
    assert read is None or read.length == 2
