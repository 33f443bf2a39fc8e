import pytest

from bench._harness.http_load_generator import answer_length

HEAD = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 5\r\n\r\n"


def test_an_answer_is_as_long_as_its_head_and_what_that_announces() -> None:
    """Bytes of the next answer are not its own."""
    assert answer_length(HEAD) == len(HEAD) + 5
    assert answer_length(HEAD + b"hello") == len(HEAD) + 5
    assert answer_length(HEAD + b"helloHTTP/1.1 500") == len(HEAD) + 5


@pytest.mark.parametrize("length", range(len(HEAD)))
def test_half_a_head_says_nothing(length: int) -> None:
    """Wherever TCP cut it."""
    assert answer_length(HEAD[:length]) is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "the server answered b'HTTP/1.1 404 Not Found'"),
        (b"\r\n\r\n", "the server answered b''"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "did not say how long"),
    ],
)
def test_what_cannot_be_counted_is_an_error(answer: bytes, problem: str) -> None:
    """Only whole answers that succeed are figures."""
    with pytest.raises(ValueError, match=problem):
        answer_length(answer)
