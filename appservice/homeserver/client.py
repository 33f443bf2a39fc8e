"""Sends client-server API requests to the homeserver, as the registration's sender or as one of its users.
Responses are JSON or a stream of bytes."""

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

from appservice.homeserver.api import (
    CHUNK,
    CONNECT_TIMEOUT,
    MAX_BYTES,
    MIB,
    HomeserverApi,
    HomeserverUnavailable,
    ResponseTooLarge,
    read_all,
    read_pieces,
    reason,
)
from appservice.homeserver.responses import InvalidResponse, interpret_response, request_kind
from appservice.observer import AppserviceObserver
from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.errors import MatrixError
from federation.media import media as media_errors
from federation.media.file_name import file_name_in
from federation.media.media import parse_mxc
from storage.concurrency import uninterrupted

if TYPE_CHECKING:
    from appservice.homeserver.availability_monitor import AvailabilityMonitor

TIMEOUT: Final = 60.0
"""Seconds for a whole request."""
LIST_TIMEOUT: Final = 180.0
IDLE_TIMEOUT: Final = 30.0
"""Seconds that a stream may pause."""
KEEPALIVE: Final = 25.0
"""Seconds; homeservers and reverse proxies keep a connection for longer."""
MAX_CONNECTIONS: Final = 32
MAX_WAITING: Final = 30.0
"""Total seconds to wait while the homeserver rate-limits a request."""
MAX_LIST: Final = 64 * MIB
"""Bytes: the state of a room with a hundred thousand members."""
MAX_MEDIA: Final = 100 * MIB
MIN_UPLOAD_RATE: Final = 32 * 1024
"""Bytes per second that the timeout of an upload assumes."""

LIMIT_EXCEEDED: Final = "M_LIMIT_EXCEEDED"
_ANSWERED: Final = frozenset({"ok", "refused", "limited"})
Query = Mapping[str, str | Sequence[str]]
"""A parameter with several values is sent once for each."""

_USER_AGENT: Final = f"Palaver/{version('palaver')}"
_STREAMED: Final = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=IDLE_TIMEOUT)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Downloaded:
    """Content type and file name are as the homeserver sends them, not sanitised. `size` is None if it does
    not send one."""

    content_type: str | None
    file_name: str | None
    size: int | None
    chunks: AsyncIterator[bytes]


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    """Connections to one homeserver, kept alive."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, keepalive_timeout=KEEPALIVE, ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        # A small compressed response could expand until it fills the memory.
        headers={hdrs.ACCEPT_ENCODING: "identity"},
        auto_decompress=False,
    ) as session:
        yield session


class HomeserverClient:
    """The caller opens `session` with `open_session` and closes it. `url` is where clients reach the homeserver,
    `token` is the `as_token`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        token: str,
        *,
        observer: AppserviceObserver | None = None,
        monitor: "AvailabilityMonitor | None" = None,
    ) -> None:
        self.url = url
        self._api = HomeserverApi(session, url)
        self._api_of_lists = HomeserverApi(session, url, most_bytes=MAX_LIST)
        self._authorization = f"Bearer {token}"
        self._observer = observer or AppserviceObserver()
        self._monitor = monitor

    async def request(
        self,
        method: Method,
        path: PathBuilder | str,
        content: Mapping[str, Any] | None = None,
        *,
        user: str | None = None,
        query: Query | None = None,
        ts: int | None = None,
        token: str | None = None,
        timeout_seconds: float = TIMEOUT,
    ) -> dict[str, Any]:
        """Return the response's JSON object. `user` is the user to act as, `ts` the event's timestamp,
        `token` an access token other than the registration's.

        Raises `MatrixError` if the homeserver refuses the request, and `HomeserverUnavailable` if there is no
        response, so that it is unknown whether the request was processed.
        """
        body = None if method is Method.GET else _encoded(content)
        params = _params(user, query, ts)
        waited = 0.0
        while True:
            try:
                return await self._once(method, _safe(path), body, params, token, timeout_seconds, wanted=dict)
            except MatrixError as refused:
                if refused.errcode != LIMIT_EXCEEDED:
                    raise
                pause: float = refused.fields["retry_after_ms"] / 1000
                waited += pause
                if waited > MAX_WAITING:
                    raise
            # The homeserver did not process it, so repeating it is safe.
            await asyncio.sleep(pause)

    async def request_list(
        self, path: PathBuilder | str, *, user: str | None = None, query: Query | None = None
    ) -> list[Any]:
        """The same for a response that is a JSON array, such as the state of a room."""
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
        limit: int = MAX_MEDIA,
    ) -> str:
        """Return the `mxc://` URI. Homeservers require the size first, so the content is spooled to disk."""
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
            timeout_seconds = TIMEOUT + size / MIN_UPLOAD_RATE
            path = str(MediaPath.v3.upload)
            found = await self._once(Method.POST, path, read(), params, None, timeout_seconds, described, wanted=dict)
        mxc = found.get("content_uri")
        if not isinstance(mxc, str) or parse_mxc(mxc) is None:
            raise HomeserverUnavailable(self.url, "its response has no valid content_uri")
        return mxc

    @asynccontextmanager
    async def download(self, mxc: str, *, user: str | None = None, limit: int = MAX_MEDIA) -> AsyncIterator[Downloaded]:
        """Raises `MatrixError` if the media cannot be downloaded. Iterating the chunks raises it when they
        exceed `limit`."""
        if parse_mxc(mxc) is None:
            raise media_errors.invalid_mxc_uri()
        async with AsyncExitStack() as stack:
            try:
                response = await self._open(stack, mxc, user, authenticated=True)
            except MatrixError as refused:
                if refused.errcode != "M_UNRECOGNIZED":
                    raise
                # Before v1.11 only the unauthenticated endpoint existed.
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
        timeout_seconds: float,
        headers: Mapping[str, str] | None = None,
        *,
        wanted: type[T],
    ) -> T:
        if self._monitor is not None:
            await self._monitor.wait_until_available()
        with self._measured(method, path):
            api = self._api if wanted is dict else self._api_of_lists
            sent = {**(headers or {}), **self._headers(token)}
            try:
                async with asyncio.timeout(timeout_seconds):
                    status, data = await api.request(method, path, body, sent, params)
            except TimeoutError as error:
                raise HomeserverUnavailable(self.url, reason(error)) from error
            return self._unwrap(interpret_response(status, data, wanted, own_token=token is None))

    async def _open(
        self, stack: AsyncExitStack, mxc: str, user: str | None, *, authenticated: bool
    ) -> aiohttp.ClientResponse:
        """A response whose body has not been read."""
        if self._monitor is not None:
            await self._monitor.wait_until_available()
        url = self._api.get_download_url(mxc, authenticated=authenticated)
        with self._measured(Method.GET, url.raw_path):
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
                data = await read_all(response, MAX_BYTES)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise HomeserverUnavailable(self.url, reason(error)) from error
            self._unwrap(interpret_response(response.status, data, dict))
            raise HomeserverUnavailable(self.url, f"HTTP status {response.status}")

    async def _chunks(self, response: aiohttp.ClientResponse, limit: int) -> AsyncIterator[bytes]:
        try:
            async for piece in read_pieces(response, limit):
                yield piece
        except ResponseTooLarge:
            raise media_errors.remote_too_large(limit) from None
        except (aiohttp.ClientError, OSError) as error:
            raise HomeserverUnavailable(self.url, reason(error)) from error

    def _unwrap(self, found: T | MatrixError | InvalidResponse) -> T:
        if isinstance(found, InvalidResponse):
            raise HomeserverUnavailable(self.url, found.reason)
        if isinstance(found, MatrixError):
            raise found
        return found

    def _headers(self, token: str | None) -> dict[str, str]:
        return {
            hdrs.AUTHORIZATION: self._authorization if token is None else f"Bearer {token}",
            hdrs.USER_AGENT: _USER_AGENT,
        }

    @contextmanager
    def _measured(self, method: Method, path: str) -> Iterator[None]:
        began = time.monotonic()
        outcome = "ok"
        try:
            yield
        except HomeserverUnavailable as away:
            outcome = "away"
            if self._monitor is not None:
                self._monitor.request_failed(away)
            raise
        except MatrixError as refused:
            outcome = "limited" if refused.errcode == LIMIT_EXCEEDED else "refused"
            raise
        except BaseException:
            outcome = "cancelled"
            raise
        finally:
            if self._monitor is not None and outcome in _ANSWERED:
                self._monitor.request_answered()
            self._observer.request_finished(method.value, request_kind(path), outcome, time.monotonic() - began)


def _safe(path: PathBuilder | str) -> str:
    """Prevent ids from changing the path: quoting removes slashes, but URLs are normalised for dot
    segments."""
    text = str(path)
    if "/." in text and not {".", ".."}.isdisjoint(text.split("/")):
        raise MatrixError("M_INVALID_PARAM", "An identifier that consists of dots alone cannot be used in a URL.")
    return text


def _encoded(content: Mapping[str, Any] | None) -> bytes:
    try:
        return encode(dict(content or {}))
    except NotCanonical as problem:
        raise MatrixError("M_BAD_JSON", f"The content cannot be encoded as JSON: {problem}.") from None


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
