"""The two-part answer in which media crosses federation.

Server-server API, "Content Repository": the answer is `multipart/mixed` with "exactly two parts": first
`application/json`, "currently an empty object", then the media, or only a `Location` where it is to be had.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import aiohttp
import orjson
from aiohttp import BodyPartReader, MultipartReader, hdrs
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDictProxy

MOST_FIELDS: Final = 32
MOST_OF_METADATA: Final = 64 * 1024
MOST_ROUND_IT: Final = 128 * 1024
"""Bytes that an answer may have beside the media itself."""
_PIECE: Final = 64 * 1024


class NotTwoParts(Exception):
    """The answer is not what the specification describes; the text comes after the server's name."""


def framed(boundary: str, headers: Mapping[str, str]) -> tuple[bytes, bytes]:
    """What stands before the media and what behind it. `boundary` is nothing that could be in the media.

    The first header of the first part is its type, and it is alone: Synapse relies on that.
    """
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    assert not re.search(r"[\r\n\0]", "".join([boundary, *headers, *headers.values()])), "one line each"
    before = f"--{boundary}\r\nContent-Type: application/json\r\n\r\n{{}}\r\n--{boundary}\r\n{fields}\r\n"
    return before.encode("ascii"), f"\r\n--{boundary}--\r\n".encode("ascii")


async def read_two_parts(
    content_type: str, content: aiohttp.StreamReader
) -> tuple[Mapping[str, str], AsyncIterator[bytes]]:
    """The headers of the media, and its bytes. Raises `NotTwoParts`, as reading the bytes does. `content` has
    a limit of its own: what stands around the parts has none here."""
    if content_type.partition(";")[0].strip().lower() != "multipart/mixed":
        raise NotTwoParts("answered with something that is not multipart/mixed")
    with _refused():
        reader = _Parts(
            {hdrs.CONTENT_TYPE: content_type},
            content,
            client_max_size=MOST_OF_METADATA,
            max_headers=MOST_FIELDS,
        )
        metadata = await _part(reader)
        kind = metadata.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
        if kind != "application/json" or not isinstance(orjson.loads(await metadata.read()), dict):
            raise NotTwoParts("answered with a first part that is no JSON object")
        media = await _part(reader)
    return media.headers, _pieces(reader, media)


class _Parts(MultipartReader):
    """Gives the bytes of a part whose own type is `multipart/…`, such as a saved web page, where the library
    would look for parts in it."""

    def _get_part_reader(self, headers: CIMultiDictProxy[str]) -> BodyPartReader:
        return BodyPartReader(self._boundary, headers, self._content, client_max_size=MOST_OF_METADATA)


async def _part(reader: MultipartReader) -> BodyPartReader:
    part = await reader.next()
    if part is None:
        raise NotTwoParts("answered with fewer than two parts")
    assert isinstance(part, BodyPartReader), "see _Parts"
    if len({name.lower() for name in part.headers}) < len(part.headers):
        # Readers that take the first and readers that take the last would see two different answers.
        raise NotTwoParts("answered with a part that says something twice")
    return part


async def _pieces(reader: MultipartReader, media: BodyPartReader) -> AsyncIterator[bytes]:
    with _refused():
        while not media.at_eof():
            yield await media.read_chunk(_PIECE)
        if await reader.next() is not None:
            raise NotTwoParts("answered with more than two parts")


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except (ValueError, HttpProcessingError) as error:
        raise NotTwoParts("answered with two parts that cannot be read, or broke off") from error
