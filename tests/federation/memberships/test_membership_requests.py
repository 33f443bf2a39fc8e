"""Membership requests of other servers: every check and every response."""

import orjson
import pytest

from federation.events import Pdu
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.incoming import MembershipRequestHandler
from federation.memberships.inviting import invite_request
from federation.memberships.membership_event import AUTHORISER
from storage.database import Database
from storage.rooms.outside_memberships import OutsideMembership, list_memberships_of_user
from tests.federation.standing import OTHER_ROOM, denying, restricted_room
from tests.support.graph import HERE, NOW, US, Graph, KnownKeys, graph_on, join
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room, signer

VERSIONS = pytest.mark.parametrize("version", ["10", "11", "12"])
KNOWN = tuple(ROOM_VERSIONS)


class Listener:
    """The invite policy, which refuses some users, and a listener that records received invites."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.received: list[tuple[OutsideMembership, str | None]] = []

    async def may_be_invited(self, user: str, sender: str, room_id: str) -> None:
        if user in self.refused:
            raise MatrixError("M_NOT_FOUND", "There is no such user.", 404)

    def invited(self, invite: OutsideMembership, problem: str | None) -> None:
        self.received.append((invite, problem))


def requests_on(here: Graph, listener: Listener | None = None, **how: int) -> MembershipRequestHandler:
    listener = listener or Listener()
    return MembershipRequestHandler(
        HERE,
        here.graph,
        here.keys,
        here.database,
        lambda: signer(HERE),
        now_ms=lambda: NOW,
        invite_policy=listener.may_be_invited,
        listener=listener,
        **how,
    )


def joining(room: Room, user: str = BOB, **content: object) -> Pdu:
    return room.propose("m.room.member", user, {"membership": "join", **content}, user)


# ---- joins -------------------------------------------------------------------------------------------


@VERSIONS
async def test_send_join_returns_the_state_and_auth_chain(version: str, database: Database) -> None:
    """The state before the join, its auth chain, and the join; a repeated request gets the same response."""
    room = public_room(version, CAROL)
    async with graph_on(database, room) as here:
        await join(here, room)
        requests = requests_on(here)
        template = await requests.make_join("b.example", room.room_id, BOB, KNOWN)
        assert template["room_version"] == version
        assert template["event"]["content"] == {"membership": "join"}
        before = room.state()
        bobs = joining(room)
        answers = [
            await requests.send_join("b.example", room.room_id, bobs.event_id, dict(bobs.event)) for _ in range(2)
        ]
        assert answers[0] == answers[1]
        answer = answers[0]
        assert answer["event"] == bobs.event
        assert answer["members_omitted"] is False
        assert {orjson.dumps(event) for event in answer["state"]} == {
            orjson.dumps(pdu.event) for pdu in before.values()
        }
        assert orjson.dumps(room.create.event) in map(orjson.dumps, answer["auth_chain"] + answer["state"])
        assert here.hook.committed[-1].destinations == {"a.example", "c.example"}


async def test_send_join_may_omit_members(database: Database) -> None:
    """On request, and only for a room with many members; a room without a name keeps its heroes."""
    room = public_room("11", CAROL)
    async with graph_on(database, room) as here:
        await join(here, room)
        requests = requests_on(here)
        bobs = joining(room)
        asked = (room.room_id, bobs.event_id, dict(bobs.event))
        answer = await requests.send_join("b.example", *asked, omit_members=True)
        assert answer["members_omitted"] is False
        requests = requests_on(here, max_full_members=2)
        answer = await requests.send_join("b.example", *asked, omit_members=True)
        assert answer["members_omitted"] is True
        assert answer["servers_in_room"] == ["a.example", "b.example", "c.example", HERE]
        members = [event["state_key"] for event in answer["state"] if event["type"] == "m.room.member"]
        assert sorted(members) == sorted([ALICE, CAROL, US])
        named = room.send("m.room.name", ALICE, {"name": "Kitchen"}, "")
        await here.graph.receive("a.example", [dict(named.event)])
        daves = joining(room, "@dave:d.example")
        answer = await requests.send_join(
            "d.example", room.room_id, daves.event_id, dict(daves.event), omit_members=True
        )
        assert all(event["type"] != "m.room.member" for event in answer["state"])
        in_state = {orjson.dumps(event) for event in answer["state"]}
        assert in_state.isdisjoint(map(orjson.dumps, answer["auth_chain"]))


async def test_a_join_with_an_invalid_signature(database: Database) -> None:
    """403, as SyTest expects."""
    room = public_room("11")
    async with graph_on(database, room) as here:
        await join(here, room)
        bobs = joining(room)
        forged = {**bobs.event, "signatures": {"b.example": {"ed25519:test": "A" * 86}}}
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await requests_on(here).send_join("b.example", room.room_id, bobs.event_id, forged)


async def test_checks_before_the_event(database: Database) -> None:
    """An unknown room, another server's user, an unsupported version, invalid identifiers."""
    room = public_room("11", CAROL)
    async with graph_on(database, room) as here:
        requests = requests_on(here)
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await requests.make_join("b.example", room.room_id, BOB, KNOWN)
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await requests.send_join("b.example", room.room_id, "$e", {})
        await join(here, room)
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await requests.make_join("b.example", room.room_id, CAROL, KNOWN)
        with pytest.raises(MatrixError, match="400 M_INCOMPATIBLE_ROOM_VERSION"):
            await requests.make_join("b.example", room.room_id, BOB, ["12"])
        for room_id, user in (("room", BOB), (room.room_id, "bob")):
            with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
                await requests.make_join("b.example", room_id, user, KNOWN)
            with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
                await requests.make_leave("b.example", room_id, user)
            with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
                await requests.make_knock("b.example", room_id, user, KNOWN)


async def test_a_server_that_the_acl_denies_is_refused(database: Database) -> None:
    """403 on make_ and send_ join, leave and knock, and on invites into rooms that this server is in."""
    room = denying(public_room("11"))
    async with graph_on(database, room) as here:
        await join(here, room)
        requests = requests_on(here)
        bobs = joining(room)
        invite = room.propose("m.room.member", BOB, {"membership": "invite"}, f"@you:{HERE}")
        room_id, body = room.room_id, dict(bobs.event)
        refused = [
            requests.make_join("b.example", room_id, BOB, KNOWN),
            requests.make_leave("b.example", room_id, BOB),
            requests.make_knock("b.example", room_id, BOB, KNOWN),
            requests.send_join("b.example", room_id, bobs.event_id, body),
            requests.send_leave("b.example", room_id, bobs.event_id, body),
            requests.send_knock("b.example", room_id, bobs.event_id, body),
            requests.receive_invite(
                "b.example", room_id, invite.event_id, invite_request(invite, room.state(), room.version)
            ),
        ]
        for one in refused:
            with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN: The room.s m.room.server_acl denies"):
                await one


@VERSIONS
async def test_a_restricted_join_needs_the_condition_and_an_authoriser(version: str, database: Database) -> None:
    """It is refused if this server cannot check the condition."""
    room = restricted_room(version, OTHER_ROOM)
    room.member(ALICE, US, "invite")
    async with graph_on(database, room) as here:
        await join(here, room)
        requests = requests_on(here)
        bobs = joining(room, **{AUTHORISER: US})
        with pytest.raises(MatrixError, match="400 M_UNABLE_TO_AUTHORISE_JOIN"):
            await requests.make_join("b.example", room.room_id, BOB, KNOWN)
        with pytest.raises(MatrixError, match="400 M_UNABLE_TO_AUTHORISE_JOIN"):
            await requests.send_join("b.example", room.room_id, bobs.event_id, dict(bobs.event))
        assert await here.graph.events([bobs.event_id]) == {}


# ---- leaves and knocks -------------------------------------------------------------------------------


async def test_a_leave_is_accepted(database: Database) -> None:
    """The leave is committed, and sent to the other servers of the room."""
    room = public_room("11", CAROL)
    room.member(ALICE, BOB, "invite")
    async with graph_on(database, room) as here:
        await join(here, room)
        requests = requests_on(here)
        template = await requests.make_leave("b.example", room.room_id, BOB)
        assert template["event"]["content"] == {"membership": "leave"}
        leaves = room.propose("m.room.member", BOB, {"membership": "leave"}, BOB)
        answer = await requests.send_leave("b.example", room.room_id, leaves.event_id, dict(leaves.event))
        assert answer == {}
        assert here.hook.committed[-1].pdu == leaves
        with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*rule"):
            await requests.make_leave("b.example", room.room_id, "@nobody:b.example")


async def test_a_knock_is_accepted(database: Database) -> None:
    """The response is the stripped state, the create event first."""
    room = public_room("11")
    room.join_rule(ALICE, "knock")
    room.member(ALICE, US, "invite")
    async with graph_on(database, room) as here:
        await join(here, room)
        requests = requests_on(here)
        assert "event" in await requests.make_knock("b.example", room.room_id, BOB, KNOWN)
        knocks = room.propose("m.room.member", BOB, {"membership": "knock"}, BOB)
        answer = await requests.send_knock("b.example", room.room_id, knocks.event_id, dict(knocks.event))
        assert [event["type"] for event in answer["knock_room_state"]] == ["m.room.create", "m.room.join_rules"]
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await requests.send_knock("b.example", room.room_id, "$other", dict(knocks.event))


# ---- invites -----------------------------------------------------------------------------------------


def inviting(room: Room, user: str = US) -> Pdu:
    return room.propose("m.room.member", ALICE, {"membership": "invite"}, user)


@VERSIONS
async def test_an_invite_is_signed_and_stored(version: str, database: Database) -> None:
    """Apart from the signature it is returned unchanged."""
    room, listener = public_room(version), Listener()
    invite = inviting(room)
    async with graph_on(database, room) as here:
        answer = await requests_on(here, listener).receive_invite(
            "a.example", room.room_id, invite.event_id, invite_request(invite, room.state(), room.version)
        )
        assert set(answer["event"]["signatures"]) == {"a.example", HERE}
        assert {**answer["event"], "signatures": 0} == {**invite.event, "signatures": 0}
        ((kept, problem),) = listener.received
        assert problem is None
        async with database.transaction() as connection:
            assert await list_memberships_of_user(connection, US) == [kept]
        assert orjson.loads(kept.event) == answer["event"]
        assert orjson.loads(kept.stripped_state)[0]["type"] == "m.room.create"


async def test_an_invite_into_a_joined_room_is_signed_and_not_stored(database: Database) -> None:
    """It will be received again with the room's events."""
    room, listener = public_room("11"), Listener()
    async with graph_on(database, room) as here:
        await join(here, room)
        invite = inviting(room, f"@you:{HERE}")
        body = invite_request(invite, room.state(), room.version)
        answer = await requests_on(here, listener).receive_invite("a.example", room.room_id, invite.event_id, body)
        assert HERE in answer["event"]["signatures"]
        assert listener.received == []


async def test_an_invite_that_the_policy_refuses(database: Database) -> None:
    """The policy's error is returned, and nothing is stored."""
    room, listener = public_room("11"), Listener()
    listener.refused.add(US)
    invite = inviting(room)
    body = invite_request(invite, room.state(), room.version)
    async with graph_on(database, room) as here:
        requests = requests_on(here, listener)
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND: There is no such user"):
            await requests.receive_invite("a.example", room.room_id, invite.event_id, body)
        async with database.transaction() as connection:
            assert await list_memberships_of_user(connection, US) == []


async def test_an_invite_with_an_invalid_signature(database: Database) -> None:
    """403, without asking the policy."""
    room = public_room("11")
    invite = inviting(room)
    body = invite_request(invite, room.state(), room.version)
    forged = {**invite.event, "signatures": {"a.example": {"ed25519:test": "A" * 86}}}
    async with graph_on(database, room) as here:
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await requests_on(here).receive_invite(
                "a.example", room.room_id, invite.event_id, {**body, "event": forged}
            )


@VERSIONS
async def test_an_invite_with_forged_stripped_state(version: str, database: Database) -> None:
    """Version 12 refuses it: "One or more events fails a signature check". Before, the state is only shown to
    the user."""
    room, listener = public_room(version), Listener()
    invite = inviting(room)
    body = invite_request(invite, room.state(), room.version)
    create = {**room.create.event, "signatures": {"a.example": {"ed25519:test": "A" * 86}}}
    body["invite_room_state"] = [create, *body["invite_room_state"][1:]]
    async with graph_on(database, room) as here:
        requests = requests_on(here, listener)
        asked = requests.receive_invite("a.example", room.room_id, invite.event_id, body)
        if version == "12":
            with pytest.raises(MatrixError, match=r"400 M_INVALID_PARAM.*signature in invite_room_state"):
                await asked
        else:
            await asked
            assert len(listener.received) == 1


async def test_an_invite_without_available_keys(database: Database) -> None:
    """A signature that cannot be verified counts as invalid."""
    room = public_room("11")
    invite = inviting(room)
    body = invite_request(invite, room.state(), room.version)
    async with graph_on(database, room) as here:
        here.keys.keys.clear()
        assert isinstance(here.keys, KnownKeys)
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await requests_on(here).receive_invite("a.example", room.room_id, invite.event_id, body)
