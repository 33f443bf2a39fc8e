"""Writes and reads the multipart responses with media between servers.

Server-server API, "Content Repository": the response is `multipart/mixed` with "exactly two parts": first
`application/json`, "currently an empty object", then the media, or only a `Location` for downloading it.
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

MAX_FIELDS: Final = 32
MAX_METADATA: Final = 64 * 1024
MAX_OVERHEAD: Final = 128 * 1024
"""Bytes that a response may have in addition to the media."""
_CHUNK: Final = 64 * 1024


class InvalidMultipart(Exception):
    """The response violates the specification. The text is a predicate with the server's name as subject."""


def multipart_frame(boundary: str, headers: Mapping[str, str]) -> tuple[bytes, bytes]:
    """Return the bytes before and after the media. The `boundary` must not occur in the media.

    The only header of the first part is its content type: Synapse relies on that.
    """
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    assert not re.search(r"[\r\n\0]", "".join([boundary, *headers, *headers.values()])), (
        "a header must not contain line breaks"
    )
    before = f"--{boundary}\r\nContent-Type: application/json\r\n\r\n{{}}\r\n--{boundary}\r\n{fields}\r\n"
    return before.encode("ascii"), f"\r\n--{boundary}--\r\n".encode("ascii")


async def read_multipart(
    content_type: str, content: aiohttp.StreamReader
) -> tuple[Mapping[str, str], AsyncIterator[bytes]]:
    """Return the headers of the media and its bytes. Raises `InvalidMultipart`, also during reading. The
    caller limits the size of `content`."""
    if content_type.partition(";")[0].strip().lower() != "multipart/mixed":
        raise InvalidMultipart("sent a response that is not multipart/mixed")
    with _invalid_multipart():
        reader = _Parts(
            {hdrs.CONTENT_TYPE: content_type}, content, client_max_size=MAX_METADATA, max_headers=MAX_FIELDS
        )
        metadata = await _part(reader)
        kind = metadata.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
        if kind != "application/json" or not isinstance(orjson.loads(await metadata.read()), dict):
            raise InvalidMultipart("sent a first part that is not a JSON object")
        media = await _part(reader)
    return media.headers, _chunks(reader, media)


class _Parts(MultipartReader):
    """Returns the bytes of a part whose type is `multipart/…`, such as a saved web page. The library would
    parse parts in it."""

    def _get_part_reader(self, headers: CIMultiDictProxy[str]) -> BodyPartReader:
        return BodyPartReader(self._boundary, headers, self._content, client_max_size=MAX_METADATA)


async def _part(reader: MultipartReader) -> BodyPartReader:
    part = await reader.next()
    if part is None:
        raise InvalidMultipart("sent fewer than two parts")
    assert isinstance(part, BodyPartReader), "see _Parts"
    if len({name.lower() for name in part.headers}) < len(part.headers):
        # Some parsers use the first and others the last of duplicate headers.
        raise InvalidMultipart("sent a part with duplicate headers")
    return part


async def _chunks(reader: MultipartReader, media: BodyPartReader) -> AsyncIterator[bytes]:
    with _invalid_multipart():
        while not media.at_eof():
            yield await media.read_chunk(_CHUNK)
        if await reader.next() is not None:
            raise InvalidMultipart("sent more than two parts")


@contextmanager
def _invalid_multipart() -> Iterator[None]:
    try:
        yield
    except (ValueError, HttpProcessingError) as error:
        raise InvalidMultipart("sent parts that are invalid or incomplete") from error
