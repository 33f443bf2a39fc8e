"""Handles membership requests of other servers: joins, leaves and knocks of their users, invites for local
users."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

from federation.events import Pdu, Signer
from federation.events.event_signatures import add_signature
from federation.events.room_event import NewEvent
from federation.events.stripped_state import selected_keys
from federation.keys.key_ring import KeyRing
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_id, is_user_id
from federation.memberships import send_join_response
from federation.memberships.inviting import ReceivedInvite, parse_invite
from federation.memberships.joining import join_template_content, needs_local_signature
from federation.memberships.leave_and_knock import check_make_knock, check_make_leave, knock_response
from federation.memberships.membership_event import parse_membership_event, require_allowed_by_acl
from federation.memberships.room_state import MembershipStateReader
from federation.rooms.engine import RoomGraph
from federation.rooms.ports import State
from federation.rooms.verify_events import are_signed
from federation.transactions.edu_dispatcher import EduDispatcher
from storage.database import Database
from storage.rooms.outside_memberships import OutsideMembership, insert_invite

_MEMBER = "m.room.member"

InvitePolicy = Callable[[str, str, str], Awaitable[None]]
"""Called with the invited user, the inviting user and the room. Raises MatrixError to refuse the invite: 404
if the user does not exist, 403 M_FORBIDDEN or M_INVITE_BLOCKED if the user does not want it."""


class MembershipRequestHandler:
    """Handles membership requests of other servers. Every refusal is a `MatrixError` for the requesting
    server."""

    def __init__(
        self,
        server_name: str,
        rooms: RoomGraph,
        keys: KeyRing,
        database: Database,
        signer: Callable[[], Signer],
        *,
        now_ms: Callable[[], int],
        invite_policy: InvitePolicy,
        listener: EduDispatcher | None = None,
        on_invite_signed: Callable[[str, Mapping[str, Any]], None] = lambda origin, event: None,
        max_full_members: int = send_join_response.MAX_MEMBERS_IN_FULL,
    ) -> None:
        """`on_invite_signed` is called with invites into rooms that this server is in, and must not block.
        `max_full_members`: the number of members up to which `send_join` returns all of them."""
        self._server_name = server_name
        self._rooms = rooms
        self._state = MembershipStateReader(server_name, rooms)
        self._keys = keys
        self._database = database
        self._signer = signer
        self._now_ms = now_ms
        self._invite_policy = invite_policy
        self._listener = listener
        self._on_invite_signed = on_invite_signed
        self._max_full_members = max_full_members

    # -- templates --

    async def make_join(self, origin: str, room_id: str, user: str, versions: Sequence[str]) -> dict[str, Any]:
        _check_identifiers(room_id, user)
        state = await self._state.for_join(room_id, user)
        content = join_template_content(
            user,
            state.events,
            state.version,
            origin=origin,
            versions=versions,
            memberships=await self._state.memberships_elsewhere(user, state),
            server=self._server_name,
        )
        return await self._template(room_id, user, {**content, "membership": "join"})

    async def make_leave(self, origin: str, room_id: str, user: str) -> dict[str, Any]:
        _check_identifiers(room_id, user)
        state = await self._state.of(room_id)
        check_make_leave(user, state.events, origin)
        return await self._template(room_id, user, {"membership": "leave"})

    async def make_knock(self, origin: str, room_id: str, user: str, versions: Sequence[str]) -> dict[str, Any]:
        _check_identifiers(room_id, user)
        state = await self._state.of(room_id)
        check_make_knock(user, state.events, state.version, origin=origin, versions=versions)
        return await self._template(room_id, user, {"membership": "knock"})

    async def _template(self, room_id: str, user: str, content: dict[str, Any]) -> dict[str, Any]:
        version = await self._state.version(room_id)
        event = await self._rooms.prepare_event(room_id, NewEvent(_MEMBER, user, content, user))
        return {"room_version": version.id, "event": event}

    # -- events --

    async def send_join(
        self, origin: str, room_id: str, event_id: str, body: object, *, omit_members: bool = False
    ) -> dict[str, Any]:
        version = await self._state.version(room_id)
        join = parse_membership_event(
            body, version, room_id=room_id, event_id=event_id, origin=origin, membership="join"
        )
        state = await self._state.for_join(room_id, join.sender)
        require_allowed_by_acl(state.events, origin)
        memberships = await self._state.memberships_elsewhere(join.sender, state)
        event = join.event
        if needs_local_signature(join, state.events, version, memberships, self._server_name):
            signer = self._signer()
            event = add_signature(event, version, signer.server, signer.key_id, signer.key)
        # "A list of the servers active in the room […] before the join."
        servers = await self._rooms.servers_in_room(room_id)
        accepted = await self._rooms.accept_membership(origin, room_id, event)
        return await self._join_response(accepted, omit_members=omit_members, servers=servers)

    async def send_leave(self, origin: str, room_id: str, event_id: str, body: object) -> dict[str, Any]:
        await self._accept_event(origin, room_id, event_id, body, "leave")
        return {}

    async def send_knock(self, origin: str, room_id: str, event_id: str, body: object) -> dict[str, Any]:
        await self._accept_event(origin, room_id, event_id, body, "knock")
        return knock_response(await self._rooms.current_events(room_id, selected_keys()))

    async def _accept_event(self, origin: str, room_id: str, event_id: str, body: object, membership: str) -> None:
        state = await self._state.of(room_id)
        require_allowed_by_acl(state.events, origin)
        pdu = parse_membership_event(
            body, state.version, room_id=room_id, event_id=event_id, origin=origin, membership=membership
        )
        await self._rooms.accept_membership(origin, room_id, pdu.event)

    async def _join_response(self, join: Pdu, *, omit_members: bool, servers: frozenset[str]) -> dict[str, Any]:
        before = await self._rooms.state_at(join.event_id)
        assert before is not None, "an accepted event is in the event graph"
        omit_members = omit_members and send_join_response.may_omit_members(before, self._max_full_members)
        state = await self._events(before, omit_members=omit_members, joining=join.sender)
        ids = {pdu.event_id for pdu in state}
        chain_ids = await self._rooms.auth_chain([join.event_id, *ids]) - {join.event_id}
        if omit_members:
            chain_ids -= ids
        chain = await self._rooms.events(chain_ids)
        return send_join_response.build_response(
            join, state, chain.values(), omit_members=omit_members, servers=servers
        )

    async def _events(self, state: State, *, omit_members: bool, joining: str) -> list[Pdu]:
        named = ("m.room.name", "") in state or ("m.room.canonical_alias", "") in state
        wanted = {
            key: event_id for key, event_id in state.items() if not (omit_members and named and key[0] == _MEMBER)
        }
        known = await self._rooms.events(wanted.values())
        events = {key: known[event_id] for key, event_id in wanted.items()}
        return send_join_response.without_members(events, joining) if omit_members else list(events.values())

    # -- invites --

    async def receive_invite(self, origin: str, room_id: str, event_id: str, body: object) -> dict[str, Any]:
        """Return the invite with this server's signature. It is stored unless this server is in the room,
        where it will receive the invite as an event."""
        invite = parse_invite(body, room_id=room_id, event_id=event_id, origin=origin, server=self._server_name)
        event, version = invite.event, invite.version
        assert event.state_key is not None, "an invite is a state event"
        is_joined = await self._state.is_server_joined(room_id)
        if is_joined:
            require_allowed_by_acl((await self._state.of(room_id)).events, origin)
        await self._check_signatures(invite)
        await self._invite_policy(event.state_key, event.sender, room_id)
        signer = self._signer()
        signed = add_signature(event.event, version, signer.server, signer.key_id, signer.key)
        if is_joined:
            self._on_invite_signed(origin, signed)
        else:
            await self._store_invite(invite, signed)
        return {"event": signed}

    async def _check_signatures(self, invite: ReceivedInvite) -> None:
        # "The invite event fails a signature check." SyTest, and with it other servers, expect 403 for that.
        if not await are_signed(self._keys, [invite.event], invite.version, self._now_ms()):
            raise MatrixError("M_FORBIDDEN", "The signature of the invite is not valid.", 403)
        # "One or more events fails a signature check."
        if invite.must_verify_state and not await are_signed(
            self._keys, invite.state.pdus, invite.version, self._now_ms()
        ):
            raise MatrixError("M_INVALID_PARAM", "A signature in invite_room_state is not valid.", 400)

    async def _store_invite(self, invite: ReceivedInvite, signed: dict[str, Any]) -> None:
        event = invite.event
        row = OutsideMembership(
            event.room_id,
            event.state_key or "",
            "invite",
            invite.version.id,
            event.event_id,
            event.sender,
            domain(event.sender) or "",
            orjson.dumps(signed),
            orjson.dumps(invite.state.stripped),
            self._now_ms(),
        )
        async with self._database.transaction() as connection:
            await insert_invite(connection, row)
        if self._listener is not None:
            self._listener.invited(row, invite.state.problem)


def _check_identifiers(room_id: str, user: str) -> None:
    if not is_room_id(room_id) or not is_user_id(user):
        raise MatrixError("M_INVALID_PARAM", "The path has no valid room id or user id.", 400)
