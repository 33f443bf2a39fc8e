"""Everything that a homeserver answers to others, put into the application behind the port."""

from types import ModuleType
from typing import Final

from aiohttp import web

from federation.service.homeserver import Homeserver
from federation.wire.endpoints import (
    backfill,
    event,
    event_auth,
    get_missing_events,
    invite,
    make_join,
    make_knock,
    make_leave,
    media_download,
    media_thumbnail,
    media_unauthenticated,
    send,
    send_join,
    send_knock,
    send_leave,
    state,
    state_ids,
    timestamp_to_event,
)
from federation.wire.media_for_peers import MEDIA, MediaForPeers
from federation.wire.membership_services import MEMBERSHIP, MembershipServices
from federation.wire.room_services import ROOMS, RoomServices

ENDPOINTS: Final[tuple[ModuleType, ...]] = (
    backfill,
    event,
    event_auth,
    get_missing_events,
    invite,
    make_join,
    make_knock,
    make_leave,
    media_download,
    media_thumbnail,
    media_unauthenticated,
    send,
    send_join,
    send_knock,
    send_leave,
    state,
    state_ids,
    timestamp_to_event,
)


def serve(app: web.Application, homeserver: Homeserver) -> None:
    """Each endpoint module has its `ROUTES`, and its services stand in the application under a key."""
    authenticator = homeserver.authenticator
    app[ROOMS] = RoomServices(authenticator, homeserver.room_requests, homeserver.inbox, homeserver.now_ms)
    app[MEMBERSHIP] = MembershipServices(authenticator, homeserver.membership_requests)
    app[MEDIA] = MediaForPeers(homeserver.media, authenticator)
    for module in ENDPOINTS:
        app.add_routes(module.ROUTES)
