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
    """Bob invites Alice into a room of his; what his server asks hers to sign."""
    graph, switches = pair.asking.graph, ROOM_VERSIONS[version]
    room_id = await pair.asking.create(version, pair.bob, "invite")
    event = NewEvent("m.room.member", pair.bob, {"membership": "invite"}, pair.alice)
    template = await graph.prepare_event(room_id, event)
    invite = sign_event(template, switches, signer_of(pair.asking.name))
    assert isinstance(invite, Pdu)
    state = await graph.current_events(room_id, selected_keys(pair.bob))
    return invite, invite_request(invite, state, switches)


async def test_the_invite_comes_back_signed(postgres_server: Server, migrated_template: str) -> None:
    """And is kept for whom it is for."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        invite, body = await invite_of(pair, "12")
        answer = await pair.put(PATH, body, roomId=invite.room_id, eventId=invite.event_id)
        assert set(answer["event"]["signatures"]) == {"asked.test", "asking.test"}
        (kept,) = await pair.asked.membership.outside_memberships(pair.alice)
        assert kept.event_id == invite.event_id


async def test_what_is_refused(postgres_server: Server, migrated_template: str) -> None:
    """A version that nobody knows here, an invite that is none, and whoever does not say who he is."""
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


async def test_the_old_form_says_no_version(postgres_server: Server, migrated_template: str) -> None:
    """It is then 1 or 2, in which this server takes no part."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        invite, _ = await invite_of(pair, "11")
        old = pair.put(OLD, invite.event, roomId=invite.room_id, eventId=invite.event_id)
        assert await pair.refusal(old) == (400, "M_INCOMPATIBLE_ROOM_VERSION")
        assert await pair.unsigned("PUT", f"{V1}/invite/!a:b.c/$e") == (401, "M_UNAUTHORIZED")


async def test_third_party_invites_are_not_known(postgres_server: Server, migrated_template: str) -> None:
    """There is no identity server: 404 M_UNRECOGNIZED is the answer, as to everything unknown."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        for path in (f"{V1}/exchange_third_party_invite/!a:b.c", f"{V1}/3pid/onbind"):
            assert await pair.refusal(pair.put(path, {})) == (404, "M_UNRECOGNIZED")
