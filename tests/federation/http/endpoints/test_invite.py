"""`PUT /_matrix/federation/v2/invite/{roomId}/{eventId}`."""

from federation.events import Pdu
from federation.events.builder import sign_event
from federation.events.room_event import NewEvent
from federation.events.stripped_state import selected_keys
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.inviting import invite_request
from tests.federation.http.membership_pair import V1, V2, Pair, membership_pair
from tests.federation.nodes import signer_of
from tests.support.postgres import Server

PATH = f"{V2}/invite/{{roomId}}/{{eventId}}"
OLD = f"{V1}/invite/{{roomId}}/{{eventId}}"


async def invite_of(pair: Pair, version: str) -> tuple[Pdu, dict[str, object]]:
    """Return Bob's invite of Alice into his room, as his server sends it to hers for signing."""
    graph, switches = pair.asking.graph, ROOM_VERSIONS[version]
    room_id = await pair.asking.create(version, pair.bob, "invite")
    event = NewEvent("m.room.member", pair.bob, {"membership": "invite"}, pair.alice)
    template = await graph.prepare_event(room_id, event)
    invite = sign_event(template, switches, signer_of(pair.asking.name))
    assert isinstance(invite, Pdu)
    state = await graph.current_events(room_id, selected_keys(pair.bob))
    return invite, invite_request(invite, state, switches)


async def test_the_signed_invite_is_returned(postgres_server: Server, migrated_template: str) -> None:
    """And stored for the invited user."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        invite, body = await invite_of(pair, "12")
        answer = await pair.put(PATH, body, roomId=invite.room_id, eventId=invite.event_id)
        assert set(answer["event"]["signatures"]) == {"asked.test", "asking.test"}
        (kept,) = await pair.asked.membership.outside_memberships(pair.alice)
        assert kept.event_id == invite.event_id


async def test_invalid_invites_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Unknown room versions, invalid events, and unsigned requests."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        invite, body = await invite_of(pair, "12")
        room_id, event_id = invite.room_id, invite.event_id
        strange = pair.put(PATH, {**body, "room_version": "2"}, roomId=room_id, eventId=event_id)
        assert await pair.refusal(strange) == (400, "M_INCOMPATIBLE_ROOM_VERSION")
        bare = pair.put(PATH, {**body, "invite_room_state": []}, roomId=room_id, eventId=event_id)
        assert await pair.refusal(bare) == (400, "M_MISSING_PARAM")
        other = pair.put(PATH, body, roomId=invite.room_id, eventId="$other")
        assert await pair.refusal(other) == (400, "M_INVALID_PARAM")
        assert await pair.unsigned("PUT", f"{V2}/invite/!a:b.c/$e") == (401, "M_UNAUTHORIZED")


async def test_the_v1_endpoint_is_refused(postgres_server: Server, migrated_template: str) -> None:
    """It is for room versions 1 and 2, which this server does not support."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        invite, _ = await invite_of(pair, "11")
        old = pair.put(OLD, invite.event, roomId=invite.room_id, eventId=invite.event_id)
        assert await pair.refusal(old) == (400, "M_INCOMPATIBLE_ROOM_VERSION")
        assert await pair.unsigned("PUT", f"{V1}/invite/!a:b.c/$e") == (401, "M_UNAUTHORIZED")


async def test_third_party_invites_are_not_supported(postgres_server: Server, migrated_template: str) -> None:
    """The response is 404 M_UNRECOGNIZED, because there is no identity server."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        for path in (f"{V1}/exchange_third_party_invite/!a:b.c", f"{V1}/3pid/onbind"):
            assert await pair.refusal(pair.put(path, {})) == (404, "M_UNRECOGNIZED")
