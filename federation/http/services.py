"""The services that endpoints use, one class for each chapter of the specification, and their
authentication.

They are stored in the application, not in globals, so that several nodes can run in one process.
"""

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from aiohttp import hdrs, web

from federation.directory.aliases import Directory
from federation.directory.profiles import Profiles
from federation.directory.public_rooms import PublicRooms
from federation.directory.space_walk import SpaceHierarchies
from federation.http.middleware import PeerDisconnected
from federation.matrix.networks import AdmissionRules
from federation.media import media as media_errors
from federation.media.location import SAFETY, media_headers
from federation.media.media import OpenMedia
from federation.media.multipart import multipart_frame
from federation.media.repository import MediaRepository
from federation.memberships.incoming import MembershipRequestHandler
from federation.peers.request_authenticator import AuthenticatedRequest, RequestAuthenticator
from federation.rooms.requests import RoomRequestHandler
from federation.transactions.inbox import Inbox


@dataclass(frozen=True, slots=True)
class RoomServices:
    authenticator: RequestAuthenticator
    requests: RoomRequestHandler
    inbox: Inbox
    now_ms: Callable[[], int]


ROOMS = web.AppKey("ROOMS", RoomServices)

ROOM_ID = "{room_id:[^/]+}"
EVENT_ID = "{event_id:[^/]+}"
V1 = "/_matrix/federation/v1"


async def authenticate_room_request(request: web.Request) -> tuple[RoomServices, AuthenticatedRequest]:
    """Authenticate the request; return the services and the authenticated request."""
    services = request.app[ROOMS]
    return services, await services.authenticator.authenticate(request)


@dataclass(frozen=True, slots=True)
class MembershipServices:
    authenticator: RequestAuthenticator
    requests: MembershipRequestHandler


MEMBERSHIP = web.AppKey("MEMBERSHIP", MembershipServices)

USER_ID = "{user_id:[^/]+}"
V2 = "/_matrix/federation/v2"


async def authenticate_membership_request(
    request: web.Request,
) -> tuple[MembershipRequestHandler, AuthenticatedRequest]:
    """Authenticate the request; return the service and the authenticated request."""
    services = request.app[MEMBERSHIP]
    return services.requests, await services.authenticator.authenticate(request)


@dataclass(frozen=True, slots=True)
class QueryServices:
    authenticator: RequestAuthenticator
    profiles: Profiles
    directory: Directory
    public_rooms: PublicRooms
    spaces: SpaceHierarchies


QUERIES = web.AppKey("QUERIES", QueryServices)


async def authenticate_query(request: web.Request) -> tuple[QueryServices, AuthenticatedRequest]:
    """Authenticate the request; return the services and the authenticated request."""
    services = request.app[QUERIES]
    return services, await services.authenticator.authenticate(request)


@dataclass(frozen=True, slots=True)
class DeviceServices:
    """`user_exists` returns whether a user id is that of a user of this server."""

    server_name: str
    authenticator: RequestAuthenticator
    user_exists: Callable[[str], Awaitable[bool]]


DEVICES = web.AppKey("DEVICES", DeviceServices)


async def authenticate_device_request(request: web.Request) -> tuple[DeviceServices, AuthenticatedRequest]:
    """Authenticate the request; return the services and the authenticated request."""
    services = request.app[DEVICES]
    return services, await services.authenticator.authenticate(request)


MAX_CONCURRENT: Final = 32
"""Concurrent responses to one server: each holds a file open and reads from the disk."""


class MediaServices:
    """The media repository for requests of other servers, with a limit of concurrent responses."""

    def __init__(
        self, media: MediaRepository, authenticator: RequestAuthenticator, *, max_concurrent: int = MAX_CONCURRENT
    ) -> None:
        self.media = media
        self.authenticator = authenticator
        self._max_concurrent = max_concurrent
        self._active: Counter[str] = Counter()

    @contextmanager
    def slot(self, origin: str) -> Iterator[None]:
        """Hold one of the server's concurrent responses. Raises `MatrixError` when the limit is reached."""
        if self._active[origin] >= self._max_concurrent:
            raise media_errors.busy()
        self._active[origin] += 1
        try:
            yield
        finally:
            self._active[origin] -= 1
            if not self._active[origin]:
                del self._active[origin]


MEDIA = web.AppKey("MEDIA", MediaServices)


async def multipart_response(request: web.Request, opened: OpenMedia) -> web.StreamResponse:
    """Send a media response of the server-server API: `multipart/mixed` of an empty object and the file,
    streamed from the disk."""
    info = opened.info
    boundary = secrets.token_hex(16)
    before, after = multipart_frame(boundary, media_headers(info.content_type, info.file_name))
    response = web.StreamResponse(headers={**SAFETY, hdrs.CONTENT_TYPE: f"multipart/mixed; boundary={boundary}"})
    response.content_length = len(before) + info.size + len(after)
    try:
        await response.prepare(request)
        remaining = info.size
        # Sent together with the first chunk: Synapse parses a part header that arrives in two pieces as
        # two.
        pending = before
        async for chunk in opened.chunks:
            remaining -= len(chunk)
            await response.write(pending + chunk)
            pending = b""
        if remaining != 0:
            raise OSError(f"The file of {info.mxc} does not have its recorded length.")
        await response.write(pending + after)
        await response.write_eof()
    except ConnectionError as error:
        raise PeerDisconnected from error
    return response


@dataclass(frozen=True, slots=True)
class Readiness:
    """Each check by name: None if it passes, else a sentence without secrets."""

    checks: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """What the endpoints without authentication need of the node. The functions are called for each
    request and must be fast."""

    # The signed document of `GET /_matrix/key/v2/server`, as JSON.
    own_keys: Callable[[], bytes]
    readiness: Callable[[], Readiness]
    version: str
    rules: AdmissionRules = field(default_factory=AdmissionRules)
    # `host[:port]` for `/.well-known/matrix/server`; None if the server name needs no delegation.
    delegated_name: str | None = None


NODE = web.AppKey("NODE", Node)
