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
from federation.media.multipart import MOST_ROUND_IT, NotTwoParts, read_two_parts
from federation.media.store import MediaIntake, MediaStore, taking_in

# How long the other server may wait for a pending upload: its own default.
_WAIT: Final = ("timeout_ms", "20000")


@dataclass(frozen=True, slots=True)
class _Described:
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
        async with taking_in(self._store.files, self._limit, media_errors.remote_too_large) as intake:
            try:
                described = await self._download(mxc, intake)
            except PeerRefused as error:
                raise media_errors.passed_on(error) or error from error
            return await self._store.keep(
                intake, mxc, described.content_type, described.file_name, uploader=None
            )

    async def _download(self, mxc: Mxc, intake: MediaIntake) -> _Described:
        target = request_target(
            "/_matrix/federation/v1/media/download/{mediaId}", query=[_WAIT], mediaId=mxc.media_id
        )
        try:
            async with self._client.stream(mxc.server, target) as answer:
                headers = await self._two_parts(mxc.server, answer, intake)
        except PeerRefused as error:
            if not media_errors.is_unaware_of_endpoint(error):
                raise
            return await self._legacy(mxc, intake)
        location = headers.get(hdrs.LOCATION)
        if location is None:
            return _described(headers)
        url = read_location(location)
        if url is None:
            raise PeerMalformed(mxc.server, "redirected to a location that media is not downloaded from")
        return await self._follow(mxc.server, url, headers, intake)

    async def _two_parts(self, peer: str, answer: StreamedResponse, intake: MediaIntake) -> Mapping[str, str]:
        """Return the headers of the media part. If they have a location, the bytes of the part are
        ignored."""
        _refuse_length(answer, intake, MOST_ROUND_IT)
        try:
            content = answer.content(self._limit + MOST_ROUND_IT)
            headers, pieces = await read_two_parts(answer.content_type, content)
            async for piece in pieces:
                if hdrs.LOCATION not in headers:
                    await intake.take(piece)
        except NotTwoParts as error:
            raise PeerMalformed(peer, str(error)) from error
        return headers

    async def _legacy(self, mxc: Mxc, intake: MediaIntake) -> _Described:
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
        async with self._client.stream(mxc.server, target, signed=False) as answer:
            return await self._plain(answer, intake)

    async def _follow(self, peer: str, url: URL, said: Mapping[str, str], intake: MediaIntake) -> _Described:
        """Download from the location. The description in the part takes precedence over that of the
        location."""
        async with self._web.stream(url, peer) as answer:
            there = await self._plain(answer, intake)
        here = _described(said)
        return _Described(here.content_type or there.content_type, here.file_name or there.file_name)

    async def _plain(self, answer: StreamedResponse, intake: MediaIntake) -> _Described:
        _refuse_length(answer, intake, 0)
        async for chunk in answer.chunks(self._limit + MOST_ROUND_IT):
            await intake.take(chunk)
        return replace(_described(answer.headers), content_type=answer.content_type)


def _described(headers: Mapping[str, str]) -> _Described:
    return _Described(headers.get(hdrs.CONTENT_TYPE), file_name_in(headers.get(hdrs.CONTENT_DISPOSITION)))


def _refuse_length(answer: StreamedResponse, intake: MediaIntake, round_it: int) -> None:
    """Refuse media that is too large by its Content-Length, before the stream fails with another error."""
    length = answer.headers.get("Content-Length", "")
    if length.isascii() and length.isdigit() and len(length) < 20:
        intake.expect(int(length) - round_it)
