"""The answer of two parts, written and read."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.multipart_mixed import (
    MOST_OF_A_HEAD,
    MOST_OF_METADATA,
    NotTwoParts,
    PartHead,
    TwoPartReader,
    boundary_of,
    framed,
)

JSON = b"Content-Type: application/json\r\n\r\n{}"


def read(pieces: Sequence[bytes], boundary: str = "b") -> tuple[dict[str, str], bytes]:
    reader = TwoPartReader(boundary)
    found = [one for piece in pieces for one in reader.receive(piece)]
    reader.finish()
    head = found[0]
    assert isinstance(head, PartHead)
    data = [one for one in found[1:] if isinstance(one, bytes)]
    assert len(data) == len(found) - 1
    return dict(head.headers), b"".join(data)


def answer(*parts: bytes, end: bytes = b"\r\n--b--\r\n") -> bytes:
    return b"".join(b"\r\n--b\r\n" + part for part in parts) + end


def test_it_is_written_as_the_specification_shows_it() -> None:
    """Delimiters, heads, an empty object, the bytes."""
    before, after = framed("gc0p4Jq0M2Yt08j34c0p", {"Content-Type": "text/plain"})
    assert before + b"hello" + after == (
        b"--gc0p4Jq0M2Yt08j34c0p\r\nContent-Type: application/json\r\n\r\n{}\r\n"
        b"--gc0p4Jq0M2Yt08j34c0p\r\nContent-Type: text/plain\r\n\r\nhello\r\n--gc0p4Jq0M2Yt08j34c0p--\r\n"
    )


def test_no_header_makes_a_second_one() -> None:
    """What could is a mistake of ours."""
    with pytest.raises(AssertionError):
        framed("b", {"Content-Type": "text/plain\r\nLocation: x"})


@given(st.binary(), st.data())
def test_what_is_written_is_read(content: bytes, data: st.DataObject) -> None:
    """In whatever pieces it comes."""
    before, after = framed("b0undary", {"Content-Type": "image/png", "Content-Disposition": "inline"})
    whole = before + content + after
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    headers, found = read(pieces, "b0undary")
    assert headers == {"content-type": "image/png", "content-disposition": "inline"}
    assert found == content


@pytest.mark.parametrize(
    "content", [b"", b"\r\n", b"\r\n--", b"\r\n--\r\n", b"--b", b"a\r\n-b\r\n\r\n", b"\r" * 50]
)
def test_what_looks_like_a_delimiter_is_none(content: bytes) -> None:
    """Byte by byte, too."""
    before, after = framed("bb", {"Content-Type": "a/b"})
    whole = before + content + after
    assert read([whole], "bb")[1] == content
    assert read([bytes([one]) for one in whole], "bb")[1] == content


@pytest.mark.parametrize(
    ("whole", "content"),
    [
        (answer(JSON, b"\r\ndata"), b"data"),
        (answer(JSON, b"Content-Type:a/b\r\n\r\n"), b""),
        (
            answer(b'content-type: Application/JSON; charset=utf-8\r\nX: y\r\n\r\n{"a": 1}', b"\r\ndata"),
            b"data",
        ),
        (b"This is ignored." + answer(JSON, b"\r\ndata") + b"So is this.", b"data"),
        (answer(JSON, b"\r\ndata").replace(b"--b\r\n", b"--b \t\r\n"), b"data"),
        (answer(JSON, b"\r\ndata", end=b"\r\n--b--"), b"data"),
        # Without the end of line of its own that an empty part should have.
        (b"--b\r\n" + JSON + b"\r\n--b\r\nContent-Type: a/b\r\n\r\n--b--", b""),
    ],
)
def test_other_ways_of_writing_it(whole: bytes, content: bytes) -> None:
    """RFC 2046 leaves these to the writer."""
    assert read([whole])[1] == content
    assert read([bytes([one]) for one in whole])[1] == content


@pytest.mark.parametrize(
    ("whole", "problem"),
    [
        (b"", "broke off"),
        (answer(JSON), "fewer than two"),
        (answer(), "fewer than two"),
        (answer(JSON, b"\r\nx", b"\r\ny"), "more than two"),
        (answer(JSON, b"\r\nx", end=b""), "broke off"),
        (answer(JSON, b"\r\nx", end=b"\r\n--b"), "broke off"),
        (answer(b"Content-Type: text/plain\r\n\r\n{}", b"\r\nx"), "not JSON"),
        (answer(b"\r\n{}", b"\r\nx"), "not JSON"),
        (answer(JSON + b"}", b"\r\nx"), "no JSON object"),
        (answer(JSON.replace(b"{}", b"[]"), b"\r\nx"), "no JSON object"),
        (answer(JSON.replace(b"{}", b""), b"\r\nx"), "no JSON object"),
        (answer(JSON.replace(b"{}", b"[" * 5000), b"\r\nx"), "no JSON object"),
        (answer(JSON, b"broken\r\n\r\nx"), "cannot be read"),
        (answer(JSON, b"A : b\r\n\r\nx"), "cannot be read"),
        (answer(JSON, b"A: b\rC: d\r\n\r\nx"), "cannot be read"),
        (answer(JSON, b"A: b\nC: d\r\n\r\nx"), "cannot be read"),
        (answer(JSON, b"A: b\0\r\n\r\nx"), "cannot be read"),
        (answer(JSON, b" folded\r\n\r\nx"), "cannot be read"),
        (answer(JSON, b"Location: a\r\nlocation: b\r\n\r\nx"), "twice"),
        (b"\r\n--bc\r\n" + JSON, "does not begin"),
        (b"\r\n--b" + b" " * MOST_OF_A_HEAD * 2, "does not begin"),
        (b"x" * 100_000, "belongs to no part"),
        (answer(JSON, b"\r\nx") + b"x" * 100_000, "belongs to no part"),
        (answer(b"A: " + b"x" * MOST_OF_A_HEAD), "head is too large"),
        (answer(JSON.replace(b"{}", b" " * (MOST_OF_METADATA + 1))), "too large"),
        (b"--b\n" + JSON.replace(b"\r", b""), "does not begin"),
    ],
)
def test_all_else_is_refused(whole: bytes, problem: str) -> None:
    """With what is wrong, in one piece or in many."""
    for pieces in ([whole], [whole[at : at + 7] for at in range(0, len(whole), 7)]):
        with pytest.raises(NotTwoParts, match=problem):
            read(pieces)


@given(st.lists(st.one_of(st.sampled_from([b"\r\n--b", b"--", b"\r\n", JSON, b": "]), st.binary(max_size=9))))
def test_any_bytes_are_read_or_refused(pieces: list[bytes]) -> None:
    """Nothing else is raised."""
    reader = TwoPartReader("b")
    try:
        for piece in pieces:
            reader.receive(piece)
        reader.finish()
    except NotTwoParts:
        return


def test_nothing_is_held_back_but_what_may_be_a_delimiter() -> None:
    """A large part needs no memory."""
    reader = TwoPartReader("b")
    reader.receive(answer(JSON, b"\r\n", end=b""))
    given_back = b"".join(one for one in reader.receive(b"x" * 1_000_000) if isinstance(one, bytes))
    assert len(given_back) > 999_990


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/mixed; boundary=abc", "abc"),
        ('Multipart/Mixed;charset=x; BOUNDARY = "a b:c"', "a b:c"),
        ("multipart/mixed; boundary=" + "a" * 70, "a" * 70),
        ("multipart/mixed; boundary=" + "a" * 71, None),
        ("multipart/mixed", None),
        ("multipart/mixed; boundary=", None),
        ('multipart/mixed; boundary="a "', None),
        ('multipart/mixed; boundary="a\r\n"', None),
        ("multipart/form-data; boundary=a", None),
        ("application/json; boundary=a", None),
        ("", None),
    ],
)
def test_the_boundary_is_named_by_the_type(content_type: str, boundary: str | None) -> None:
    """RFC 2046, 5.1.1: one to seventy characters, the last no blank."""
    assert boundary_of(content_type) == boundary
