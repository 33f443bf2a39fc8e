"""Everything that a homeserver answers to others, put into the application behind the port."""

from types import ModuleType
from typing import Final

from aiohttp import web

from federation.service.homeserver import Homeserver
from federation.wire.device_services import DEVICES, DeviceServices
from federation.wire.endpoints import (
    backfill,
    event,
    event_auth,
    get_missing_events,
    hierarchy,
    invite,
    key_query,
    make_join,
    make_knock,
    make_leave,
    media_download,
    media_thumbnail,
    media_unauthenticated,
    openid_userinfo,
    public_rooms,
    query_directory,
    query_profile,
    send,
    send_join,
    send_knock,
    send_leave,
    state,
    state_ids,
    third_party_invites,
    timestamp_to_event,
    user_devices,
    user_keys_claim,
    user_keys_query,
    well_known_server,
)
from federation.wire.endpoints.key_query import NOTARY
from federation.wire.media_for_peers import MEDIA, MediaForPeers
from federation.wire.membership_services import MEMBERSHIP, MembershipServices
from federation.wire.peer_watch import peer_watch
from federation.wire.query_services import QUERIES, QueryServices
from federation.wire.room_services import ROOMS, RoomServices

ENDPOINTS: Final[tuple[ModuleType, ...]] = (
    backfill,
    event,
    event_auth,
    get_missing_events,
    hierarchy,
    invite,
    key_query,
    make_join,
    make_knock,
    make_leave,
    media_download,
    media_thumbnail,
    media_unauthenticated,
    openid_userinfo,
    public_rooms,
    query_directory,
    query_profile,
    send,
    send_join,
    send_knock,
    send_leave,
    state,
    state_ids,
    third_party_invites,
    timestamp_to_event,
    user_devices,
    user_keys_claim,
    user_keys_query,
    well_known_server,
)


def serve(app: web.Application, homeserver: Homeserver) -> None:
    """Each endpoint module has its `ROUTES`, and its services stand in the application under a key."""
    authenticator = homeserver.authenticator
    app[ROOMS] = RoomServices(authenticator, homeserver.room_requests, homeserver.inbox, homeserver.now_ms)
    app[MEMBERSHIP] = MembershipServices(authenticator, homeserver.membership_requests)
    app[MEDIA] = MediaForPeers(homeserver.media, authenticator)
    app[QUERIES] = QueryServices(
        authenticator,
        homeserver.profiles,
        homeserver.directory,
        homeserver.public_rooms,
        homeserver.spaces,
    )
    app[DEVICES] = DeviceServices(homeserver.server_name, authenticator, homeserver.profiles.exists)
    app[NOTARY] = homeserver.notary
    app.middlewares.append(peer_watch(homeserver.audit, homeserver.gate))
    for module in ENDPOINTS:
        app.add_routes(module.ROUTES)
