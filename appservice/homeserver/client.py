"""Asks the homeserver, in the name of the registration or of one of its users: requests as clients make them,
answers as JSON or as a stream of bytes."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Final, TypeVar

import aiohttp
from aiohttp import hdrs
from mautrix.api import MediaPath, Method, PathBuilder

from appservice.homeserver.answers import Broken, meaning, request_kind
from appservice.homeserver.api import (
    CHUNK,
    CONNECT,
    MIB,
    MOST_BYTES,
    HomeserverApi,
    HomeserverAway,
    TooMuch,
    read_all,
    read_pieces,
    reason,
)
from appservice.observer import AppserviceObserver
from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.errors import MatrixError
from federation.media import media as media_errors
from federation.media.file_name import file_name_in
from federation.media.media import parse_mxc
from storage.concurrency import uninterrupted

if TYPE_CHECKING:
    from appservice.homeserver.availability_watch import Watch

TIMEOUT: Final = 60.0
"""Seconds, for the whole of it."""
LIST_TIMEOUT: Final = 180.0
IDLE: Final = 30.0
"""Seconds that may pass in a stream without a byte."""
KEEP: Final = 25.0
"""Seconds; homeservers and what stands in front of them keep a connection for longer."""
MOST_CONNECTIONS: Final = 32
MOST_WAITING: Final = 30.0
"""Seconds in all, while the homeserver has enough."""
MOST_OF_A_LIST: Final = 64 * MIB
"""Bytes: the state of a room with a hundred thousand members."""
MOST_MEDIA: Final = 100 * MIB
SLOWEST: Final = 32 * 1024
"""Bytes a second that an upload is given time for."""

LIMIT_EXCEEDED: Final = "M_LIMIT_EXCEEDED"
_ANSWERED: Final = frozenset({"ok", "refused", "limited"})
Query = Mapping[str, str | Sequence[str]]
"""What has several values is asked with all of them."""

_USER_AGENT: Final = f"Palaver/{version('palaver')}"
_STREAMED: Final = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT, sock_read=IDLE)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Downloaded:
    """What the homeserver calls it; nothing of that has been made safe. `size` is None where it does not
    say."""

    content_type: str | None
    file_name: str | None
    size: int | None
    chunks: AsyncIterator[bytes]


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    """To one homeserver, with its connections kept."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS, keepalive_timeout=KEEP, ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        # Compressed, a small answer could become one that fills the memory.
        headers={hdrs.ACCEPT_ENCODING: "identity"},
        auto_decompress=False,
    ) as session:
        yield session


class HomeserverClient:
    """`session` is one of `open_session`, closed by whoever opened it. `url` is where clients reach the
    homeserver, `token` the `as_token`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        token: str,
        *,
        observer: AppserviceObserver | None = None,
        watch: "Watch | None" = None,
    ) -> None:
        self.url = url
        self._api = HomeserverApi(session, url)
        self._api_of_lists = HomeserverApi(session, url, most_bytes=MOST_OF_A_LIST)
        self._authorization = f"Bearer {token}"
        self._observer = observer or AppserviceObserver()
        self._watch = watch

    async def ask(
        self,
        method: Method,
        path: PathBuilder | str,
        content: Mapping[str, Any] | None = None,
        *,
        user: str | None = None,
        query: Query | None = None,
        ts: int | None = None,
        token: str | None = None,
        patience: float = TIMEOUT,
    ) -> dict[str, Any]:
        """The answer's JSON object. `user` is as whom it is asked, `ts` the time that the event is to bear,
        `token` another one than that of the registration.

        Raises `MatrixError` when the homeserver refuses it, and `HomeserverAway` when there is no answer, so
        that nobody knows whether it was done."""
        body = None if method is Method.GET else _encoded(content)
        params = _params(user, query, ts)
        waited = 0.0
        while True:
            try:
                return await self._once(method, _safe(path), body, params, token, patience, wanted=dict)
            except MatrixError as refused:
                if refused.errcode != LIMIT_EXCEEDED:
                    raise
                pause: float = refused.fields["retry_after_ms"] / 1000
                waited += pause
                if waited > MOST_WAITING:
                    raise
            # It was not done, so that it can be said again without a thought.
            await asyncio.sleep(pause)

    async def ask_list(
        self, path: PathBuilder | str, *, user: str | None = None, query: Query | None = None
    ) -> list[Any]:
        """The same for what is answered with an array, such as the state of a room."""
        return await self._once(
            Method.GET, _safe(path), None, _params(user, query, None), None, LIST_TIMEOUT, wanted=list
        )

    async def upload(
        self,
        user: str | None,
        chunks: bytes | AsyncIterable[bytes],
        content_type: str | None = None,
        name: str | None = None,
        *,
        limit: int = MOST_MEDIA,
    ) -> str:
        """Its `mxc://` address. Homeservers want to know its size first, so that it waits on the disk until
        it is whole."""
        with SpooledTemporaryFile(max_size=MIB) as file:
            size = 0
            async for chunk in _pieces(chunks):
                size += len(chunk)
                if size > limit:
                    raise media_errors.upload_too_large(limit)
                await uninterrupted(file.write, chunk)
            await uninterrupted(file.seek, 0)

            async def read() -> AsyncGenerator[bytes, None]:
                while data := await uninterrupted(file.read, CHUNK):
                    yield data

            described: dict[str, str] = {
                hdrs.CONTENT_TYPE: content_type or "application/octet-stream",
                hdrs.CONTENT_LENGTH: str(size),
            }
            params = _params(user, None if name is None else {"filename": name}, None)
            patience = TIMEOUT + size / SLOWEST
            path = str(MediaPath.v3.upload)
            found = await self._once(
                Method.POST, path, read(), params, None, patience, described, wanted=dict
            )
        mxc = found.get("content_uri")
        if not isinstance(mxc, str) or parse_mxc(mxc) is None:
            raise HomeserverAway(self.url, "it does not say where it keeps what was uploaded")
        return mxc

    @asynccontextmanager
    async def download(
        self, mxc: str, *, user: str | None = None, limit: int = MOST_MEDIA
    ) -> AsyncIterator[Downloaded]:
        """Raises `MatrixError` when there is none to be had. So do the chunks when they are more than
        `limit`."""
        if parse_mxc(mxc) is None:
            raise media_errors.invalid_mxc_uri()
        async with AsyncExitStack() as stack:
            try:
                response = await self._open(stack, mxc, user, authenticated=True)
            except MatrixError as refused:
                if refused.errcode != "M_UNRECOGNIZED":
                    raise
                # Before v1.11 there was only the one that asks for no token.
                response = await self._open(stack, mxc, user, authenticated=False)
            size = response.content_length
            if size is not None and size > limit:
                raise media_errors.remote_too_large(limit)
            yield Downloaded(
                response.headers.get(hdrs.CONTENT_TYPE),
                file_name_in(response.headers.get(hdrs.CONTENT_DISPOSITION)),
                size,
                self._chunks(response, limit),
            )

    async def _once(
        self,
        method: Method,
        path: str,
        body: bytes | AsyncGenerator[bytes, None] | None,
        params: dict[str, Any],
        token: str | None,
        patience: float,
        headers: Mapping[str, str] | None = None,
        *,
        wanted: type[T],
    ) -> T:
        if self._watch is not None:
            await self._watch.passed()
        with self._counted(method, path):
            api = self._api if wanted is dict else self._api_of_lists
            sent = {**(headers or {}), **self._headers(token)}
            try:
                async with asyncio.timeout(patience):
                    status, data = await api.request(method, path, body, sent, params)
            except TimeoutError as error:
                raise HomeserverAway(self.url, reason(error)) from error
            return self._judged(meaning(status, data, wanted, own_token=token is None))

    async def _open(
        self, stack: AsyncExitStack, mxc: str, user: str | None, *, authenticated: bool
    ) -> aiohttp.ClientResponse:
        """An answer whose body has not been read."""
        if self._watch is not None:
            await self._watch.passed()
        url = self._api.get_download_url(mxc, authenticated=authenticated)
        with self._counted(Method.GET, url.raw_path):
            try:
                response = await stack.enter_async_context(
                    self._api.session.get(
                        url,
                        params=_params(user, None, None),
                        headers=self._headers(None),
                        allow_redirects=False,
                        timeout=_STREAMED,
                    )
                )
                if response.status == 200:
                    return response
                data = await read_all(response, MOST_BYTES)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise HomeserverAway(self.url, reason(error)) from error
            self._judged(meaning(response.status, data, dict))
            raise HomeserverAway(self.url, f"HTTP status {response.status}")

    async def _chunks(self, response: aiohttp.ClientResponse, limit: int) -> AsyncIterator[bytes]:
        try:
            async for piece in read_pieces(response, limit):
                yield piece
        except TooMuch:
            raise media_errors.remote_too_large(limit) from None
        except (aiohttp.ClientError, OSError) as error:
            raise HomeserverAway(self.url, reason(error)) from error

    def _judged(self, found: T | MatrixError | Broken) -> T:
        if isinstance(found, Broken):
            raise HomeserverAway(self.url, found.reason)
        if isinstance(found, MatrixError):
            raise found
        return found

    def _headers(self, token: str | None) -> dict[str, str]:
        return {
            hdrs.AUTHORIZATION: self._authorization if token is None else f"Bearer {token}",
            hdrs.USER_AGENT: _USER_AGENT,
        }

    @contextmanager
    def _counted(self, method: Method, path: str) -> Iterator[None]:
        began = time.monotonic()
        outcome = "ok"
        try:
            yield
        except HomeserverAway as away:
            outcome = "away"
            if self._watch is not None:
                self._watch.lost(away)
            raise
        except MatrixError as refused:
            outcome = "limited" if refused.errcode == LIMIT_EXCEEDED else "refused"
            raise
        except BaseException:
            outcome = "cancelled"
            raise
        finally:
            if self._watch is not None and outcome in _ANSWERED:
                self._watch.answered()
            self._observer.asked(method.value, request_kind(path), outcome, time.monotonic() - began)


def _safe(path: PathBuilder | str) -> str:
    """No id leads to another place: what is quoted has no slash, but addresses are cleaned of their dots."""
    text = str(path)
    if "/." in text and not {".", ".."}.isdisjoint(text.split("/")):
        raise MatrixError("M_INVALID_PARAM", "A name of dots alone cannot stand in an address.")
    return text


def _encoded(content: Mapping[str, Any] | None) -> bytes:
    try:
        return encode(dict(content or {}))
    except NotCanonical as problem:
        raise MatrixError("M_BAD_JSON", f"That cannot be written as JSON: {problem}.") from None


def _params(user: str | None, query: Query | None, ts: int | None) -> dict[str, Any]:
    params: dict[str, Any] = {} if query is None else dict(query)
    if user is not None:
        params["user_id"] = user
    if ts is not None:
        params["ts"] = str(ts)
    return params


async def _pieces(content: bytes | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(content, bytes):
        yield content
    else:
        async for chunk in content:
            yield chunk
