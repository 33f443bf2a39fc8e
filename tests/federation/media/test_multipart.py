"""Multipart responses with media."""

import asyncio
from collections.abc import Sequence

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol
from hypothesis import given
from hypothesis import strategies as st

from federation.media.multipart import MAX_METADATA, InvalidMultipart, multipart_frame, read_multipart

JSON = b"Content-Type: application/json\r\n\r\n{}"


async def read(pieces: Sequence[bytes], boundary: str = "b") -> tuple[dict[str, str], bytes]:
    loop = asyncio.get_running_loop()
    content = aiohttp.StreamReader(BaseProtocol(loop), 2**20, loop=loop)
    for piece in pieces:
        content.feed_data(piece)
    content.feed_eof()
    headers, found = await read_multipart(f"multipart/mixed; boundary={boundary}", content)
    return {name.lower(): value for name, value in headers.items()}, b"".join([one async for one in found])


def answer(*parts: bytes, end: bytes = b"\r\n--b--\r\n") -> bytes:
    return b"".join(b"\r\n--b\r\n" + part for part in parts) + end


def test_the_response_has_the_form_of_the_specification() -> None:
    """Delimiters, headers, an empty object, the bytes."""
    before, after = multipart_frame("gc0p4Jq0M2Yt08j34c0p", {"Content-Type": "text/plain"})
    assert before + b"hello" + after == (
        b"--gc0p4Jq0M2Yt08j34c0p\r\nContent-Type: application/json\r\n\r\n{}\r\n"
        b"--gc0p4Jq0M2Yt08j34c0p\r\nContent-Type: text/plain\r\n\r\nhello\r\n--gc0p4Jq0M2Yt08j34c0p--\r\n"
    )


def test_headers_with_line_breaks_are_a_bug_of_the_caller() -> None:
    """They raise AssertionError."""
    with pytest.raises(AssertionError):
        multipart_frame("b", {"Content-Type": "text/plain\r\nLocation: x"})


@given(st.binary(), st.data())
async def test_a_response_round_trips(content: bytes, data: st.DataObject) -> None:
    """In chunks of any size."""
    before, after = multipart_frame("b0undary", {"Content-Type": "image/png", "Content-Disposition": "inline"})
    whole = before + content + after
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    headers, found = await read(pieces, "b0undary")
    assert headers == {"content-type": "image/png", "content-disposition": "inline"}
    assert found == content


@pytest.mark.parametrize(
    "content", [b"", b"\r\n", b"\r\n--", b"\r\n--\r\n", b"--b", b"a\r\n-b\r\n\r\n", b"\r" * 50, b"x" * 99_999]
)
async def test_similar_bytes_are_not_a_delimiter(content: bytes) -> None:
    """Even in small chunks."""
    before, after = multipart_frame("bb", {"Content-Type": "a/b"})
    whole = before + content + after
    assert (await read([whole], "bb"))[1] == content
    assert (await read([whole[at : at + 7] for at in range(0, len(whole), 7)], "bb"))[1] == content


@pytest.mark.parametrize(
    ("whole", "content"),
    [
        (answer(JSON, b"\r\ndata"), b"data"),
        (answer(JSON, b"Content-Type:a/b\r\n\r\n"), b""),
        (answer(b'content-type: Application/JSON; charset=utf-8\r\nX: y\r\n\r\n{"a": 1}', b"\r\ndata"), b"data"),
        (b"This is ignored." + answer(JSON, b"\r\ndata") + b"So is this.", b"data"),
        (answer(JSON, b"\r\ndata", end=b"\r\n--b--"), b"data"),
        # Without the line break that an empty part should have.
        (b"--b\r\n" + JSON + b"\r\n--b\r\nContent-Type: a/b\r\n\r\n--b--", b""),
        # A saved web page.
        (answer(JSON, b"Content-Type: multipart/related; boundary=c\r\n\r\n--c\r\n\r\nx"), b"--c\r\n\r\nx"),
        # The part's own Content-Length.
        (answer(JSON, b"Content-Length: 4\r\n\r\ndata"), b"data"),
    ],
)
async def test_other_valid_forms_are_parsed(whole: bytes, content: bytes) -> None:
    """RFC 2046 allows them."""
    assert (await read([whole]))[1] == content


@pytest.mark.parametrize(
    "whole",
    [
        b"",
        answer(),
        answer(JSON),
        answer(JSON, b"\r\nx", b"\r\ny"),
        answer(JSON, b"\r\nx", end=b""),
        answer(JSON, b"\r\nx", end=b"\r\n--b"),
        answer(JSON, b"Content-Length: 9\r\n\r\nx"),
        answer(JSON, b"Content-Length: 1\r\n\r\nxyz"),
        answer(JSON, b"Content-Length: -1\r\n\r\nx"),
        answer(b"Content-Type: text/plain\r\n\r\n{}", b"\r\nx"),
        answer(b"\r\n{}", b"\r\nx"),
        answer(JSON + b"}", b"\r\nx"),
        answer(JSON.replace(b"{}", b"[]"), b"\r\nx"),
        answer(JSON.replace(b"{}", b""), b"\r\nx"),
        answer(JSON.replace(b"{}", b"[" * 5000), b"\r\nx"),
        answer(JSON.replace(b"{}", b" " * (MAX_METADATA + 1)), b"\r\nx"),
        answer(JSON, b"broken\r\n\r\nx"),
        answer(JSON, b"A : b\r\n\r\nx"),
        answer(JSON, b"A: b\rC: d\r\n\r\nx"),
        answer(JSON, b"A: b\0\r\n\r\nx"),
        answer(JSON, b"Location: a\r\nlocation: b\r\n\r\nx"),
        answer(JSON, b"A: " + b"x" * 100_000 + b"\r\n\r\nx"),
        answer(JSON, b"".join(b"A%d: b\r\n" % number for number in range(1000)) + b"\r\nx"),
        b"\r\n--bc\r\n" + JSON,
        b"x" * 300_000,
    ],
    ids=lambda whole: repr(whole[:30]),
)
async def test_invalid_responses_are_refused(whole: bytes) -> None:
    """In one chunk or in many."""
    for pieces in ([whole], [whole[at : at + 7] for at in range(0, len(whole), 7)]):
        with pytest.raises(InvalidMultipart):
            await read(pieces)


@pytest.mark.parametrize(
    "content_type",
    ["image/png", "multipart/form-data; boundary=b", "multipart/mixed", "multipart/mixed; boundary=" + "b" * 71, ""],
)
async def test_other_content_types_are_refused(content_type: str) -> None:
    """So is one without a boundary."""
    loop = asyncio.get_running_loop()
    with pytest.raises(InvalidMultipart):
        await read_multipart(content_type, aiohttp.StreamReader(BaseProtocol(loop), 2**20, loop=loop))


@given(st.lists(st.one_of(st.sampled_from([b"\r\n--b", b"--", b"\r\n", JSON, b": "]), st.binary(max_size=9))))
async def test_any_bytes_are_parsed_or_refused(pieces: list[bytes]) -> None:
    """Without another exception."""
    try:
        await read([b"--b\r\n" + JSON, *pieces])
    except InvalidMultipart:
        return
