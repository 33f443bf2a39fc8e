"""Downloads media of other servers into the store. Server-server API, "Content Repository"."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import hdrs
from yarl import URL

from federation.client.client import FederationClient, StreamedResponse
from federation.client.errors import PeerMalformed, PeerRefused
from federation.client.public_web import PublicWeb
from federation.client.requests import RequestTarget, request_target
from federation.media import media as media_errors
from federation.media.file_name import file_name_in
from federation.media.location import read_location
from federation.media.media import MediaInfo, Mxc
from federation.media.multipart import MAX_OVERHEAD, InvalidMultipart, read_multipart
from federation.media.store import MediaReceiver, MediaStore, receive_media

# How long the other server may wait for a pending upload: its own default.
_WAIT: Final = ("timeout_ms", "20000")


@dataclass(frozen=True, slots=True)
class _Description:
    """How the other server describes the media."""

    content_type: str | None
    file_name: str | None


class MediaFetcher:
    """`limit`: the largest media in bytes."""

    def __init__(self, store: MediaStore, client: FederationClient, web: PublicWeb, limit: int) -> None:
        self._store = store
        self._client = client
        self._web = web
        self._limit = limit

    async def fetch(self, mxc: Mxc) -> MediaInfo:
        """Download media into the store. Raises `MatrixError` with the other server's refusal, or
        `PeerError`."""
        async with receive_media(self._store.files, self._limit, media_errors.remote_too_large) as receiver:
            try:
                description = await self._download(mxc, receiver)
            except PeerRefused as error:
                raise media_errors.client_error(error) or error from error
            return await self._store.save(receiver, mxc, description.content_type, description.file_name, uploader=None)

    async def _download(self, mxc: Mxc, receiver: MediaReceiver) -> _Description:
        target = request_target("/_matrix/federation/v1/media/download/{mediaId}", query=[_WAIT], mediaId=mxc.media_id)
        try:
            async with self._client.stream(mxc.server, target) as response:
                headers = await self._read_parts(mxc.server, response, receiver)
        except PeerRefused as error:
            if not media_errors.is_unaware_of_endpoint(error):
                raise
            return await self._legacy(mxc, receiver)
        location = headers.get(hdrs.LOCATION)
        if location is None:
            return _describe(headers)
        url = read_location(location)
        if url is None:
            raise PeerMalformed(mxc.server, "redirected to a location that media is not downloaded from")
        return await self._follow(mxc.server, url, headers, receiver)

    async def _read_parts(self, peer: str, response: StreamedResponse, receiver: MediaReceiver) -> Mapping[str, str]:
        """Return the headers of the media part. If they have a location, the bytes of the part are
        ignored."""
        _refuse_length(response, receiver, MAX_OVERHEAD)
        try:
            content = response.content(self._limit + MAX_OVERHEAD)
            headers, pieces = await read_multipart(response.content_type, content)
            async for piece in pieces:
                if hdrs.LOCATION not in headers:
                    await receiver.write(piece)
        except InvalidMultipart as error:
            raise PeerMalformed(peer, str(error)) from error
        return headers

    async def _legacy(self, mxc: Mxc, receiver: MediaReceiver) -> _Description:
        """Download from the endpoint before v1.11, which needs no authentication, so the request is not
        signed.

        "allow_remote: Indicates to the server that it should not attempt to fetch the media if it is deemed
        remote."
        """
        target: RequestTarget = request_target(
            "/_matrix/media/v3/download/{serverName}/{mediaId}",
            query=[("allow_remote", "false"), _WAIT],
            serverName=mxc.server,
            mediaId=mxc.media_id,
        )
        async with self._client.stream(mxc.server, target, signed=False) as response:
            return await self._plain(response, receiver)

    async def _follow(self, peer: str, url: URL, headers: Mapping[str, str], receiver: MediaReceiver) -> _Description:
        """Download from the location. The description in the part takes precedence over that of the
        location."""
        async with self._web.stream(url, peer) as response:
            remote = await self._plain(response, receiver)
        part = _describe(headers)
        return _Description(part.content_type or remote.content_type, part.file_name or remote.file_name)

    async def _plain(self, response: StreamedResponse, receiver: MediaReceiver) -> _Description:
        _refuse_length(response, receiver, 0)
        async for chunk in response.chunks(self._limit + MAX_OVERHEAD):
            await receiver.write(chunk)
        return replace(_describe(response.headers), content_type=response.content_type)


def _describe(headers: Mapping[str, str]) -> _Description:
    return _Description(headers.get(hdrs.CONTENT_TYPE), file_name_in(headers.get(hdrs.CONTENT_DISPOSITION)))


def _refuse_length(response: StreamedResponse, receiver: MediaReceiver, overhead: int) -> None:
    """Refuse media that is too large by its Content-Length, before the stream fails with another error."""
    length = response.headers.get("Content-Length", "")
    if length.isascii() and length.isdigit() and len(length) < 20:
        receiver.check_size(int(length) - overhead)
