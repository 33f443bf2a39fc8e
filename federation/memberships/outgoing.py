"""Lets local users join, leave, invite to and knock on rooms, whether this server is in the room or not.

`MembershipClient` runs the handshakes for rooms that this server is not in: it sends their requests.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import orjson

from federation.client.client import LARGE, SMALL, FederationClient
from federation.client.errors import PeerMalformed, PeerRefused
from federation.client.requests import RequestTarget, request_target
from federation.events import BuildFailure, Pdu, Signer
from federation.events.builder import sign_event
from federation.events.received import Accepted
from federation.events.room_event import NewEvent
from federation.events.stripped_state import selected_keys
from federation.keys.key_ring import KeyRing
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import domain, is_room_alias, is_room_id, is_server_name, is_user_id
from federation.matrix.room_version import ROOM_VERSIONS, RoomVersion
from federation.memberships import inviting
from federation.memberships.joining import join
from federation.memberships.leave_and_knock import knock, leave
from federation.memberships.membership_event import AUTHORISER
from federation.memberships.remote_membership import (
    AllServersFailed,
    Handshake,
    HandshakeResult,
    PeerAnswer,
    PeerRequest,
    SendRequest,
    TemplateRequest,
)
from federation.memberships.restricted_joins import AuthorisedBy, find_join_authoriser
from federation.memberships.room_state import MembershipStateReader
from federation.memberships.send_join_response import JoinResult
from federation.rooms.engine import RoomGraph
from federation.rooms.pending_joins import PendingJoins
from federation.rooms.verify_events import is_signed_by
from storage.concurrency import KeyedLock
from storage.database import Database
from storage.rooms.outside_memberships import (
    OutsideMembership,
    delete_membership,
    fetch_membership,
    list_memberships_of_user,
    write_membership,
)

R = TypeVar("R")

FEDERATION: Final = "/_matrix/federation"
SEND_PATHS: Final[Mapping[str, str]] = {
    "join": f"{FEDERATION}/v2/send_join/{{roomId}}/{{eventId}}",
    "leave": f"{FEDERATION}/v2/send_leave/{{roomId}}/{{eventId}}",
    "knock": f"{FEDERATION}/v1/send_knock/{{roomId}}/{{eventId}}",
}
LARGE_TIMEOUT: Final = 300.0
"""Seconds for `send_join`, whose response contains the whole state of a room."""


class MembershipClient:
    """Sends requests about memberships to other servers."""

    def __init__(self, client: FederationClient) -> None:
        self._client = client

    async def run(
        self, handshake: Handshake[R], *, room_id: str, user: str, membership: str
    ) -> HandshakeResult[R] | AllServersFailed:
        """Send the requests of a handshake until it has a result."""
        answer: PeerAnswer | None = None
        while True:
            try:
                # Parsing the state of a large room takes seconds, so it is done in a thread.
                request = next(handshake) if answer is None else await asyncio.to_thread(_send, handshake, answer)
            except _Finished as finished:
                result: HandshakeResult[R] | AllServersFailed = finished.args[0]
                return result
            except StopIteration as end:  # there was no server to ask
                ended: HandshakeResult[R] | AllServersFailed = end.value
                return ended
            answer = await self._request(request, room_id, user, membership)

    async def invite(self, server: str, room_id: str, event_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        target = request_target(f"{FEDERATION}/v2/invite/{{roomId}}/{{eventId}}", roomId=room_id, eventId=event_id)
        return await self._client.request("PUT", server, target, body)

    async def directory(self, server: str, alias: str) -> tuple[str, tuple[str, ...]]:
        """Resolve an alias to its room and servers in the room. Raises `PeerError`."""
        target = request_target(f"{FEDERATION}/v1/query/directory", query=[("room_alias", alias)])
        answer = await self._client.request("GET", server, target)
        room_id, servers = answer.get("room_id"), answer.get("servers")
        if not isinstance(room_id, str) or not isinstance(servers, list):
            raise PeerMalformed(server, "answered without a valid room_id and servers")
        return room_id, tuple(name for name in servers if isinstance(name, str))

    async def _request(self, request: PeerRequest, room_id: str, user: str, membership: str) -> PeerAnswer:
        try:
            match request:
                case TemplateRequest(server):
                    return await self._client.request("GET", server, _make_target(room_id, user, membership))
                case SendRequest(server, event):
                    large = membership == "join"
                    return await self._client.request(
                        "PUT",
                        server,
                        request_target(SEND_PATHS[membership], roomId=room_id, eventId=event.event_id),
                        event.event,
                        timeout=LARGE_TIMEOUT if large else 60.0,
                        limit=LARGE if large else SMALL,
                    )
        except PeerError as error:
            return error


class _Finished(Exception):
    """The handshake has a result. `StopIteration` itself cannot be raised out of a thread."""


def _send(handshake: Handshake[R], answer: PeerAnswer) -> PeerRequest:
    try:
        return handshake.send(answer)
    except StopIteration as end:
        raise _Finished(end.value) from None


def _make_target(room_id: str, user: str, membership: str) -> RequestTarget:
    # make_leave has no `ver`, since the server of an invited user knows the room version.
    versions = () if membership == "leave" else tuple(("ver", version) for version in ROOM_VERSIONS)
    return request_target(
        f"{FEDERATION}/v1/make_{membership}/{{roomId}}/{{userId}}", roomId=room_id, userId=user, query=versions
    )


LocalAlias = Callable[[str], Awaitable[tuple[str, Sequence[str]] | None]]
"""Resolves an alias of this server to its room and servers in the room."""

_MEMBER: Final = "m.room.member"
_REJECT_RETRY_DELAYS: Final = (0.2, 1.0, 3.0)
"""Seconds between attempts to reject an invite that its server does not know of yet."""


class MembershipService:
    """Changes memberships of local users. Every refusal is a `MatrixError` for the user."""

    def __init__(
        self,
        server_name: str,
        rooms: RoomGraph,
        membership_client: MembershipClient,
        keys: KeyRing,
        database: Database,
        signer: Callable[[], Signer],
        *,
        now_ms: Callable[[], int],
        local_alias: LocalAlias,
        pending_joins: PendingJoins | None = None,
    ) -> None:
        self._server_name = server_name
        self._rooms = rooms
        self._state = MembershipStateReader(server_name, rooms)
        self._membership_client = membership_client
        self._keys = keys
        self._database = database
        self._signer = signer
        self._now_ms = now_ms
        self._local_alias = local_alias
        self._pending_joins = pending_joins or PendingJoins()
        # Two users who join the same room at once join it in turn, so that the second finds it on this
        # server.
        self._joining: KeyedLock[str] = KeyedLock()

    # -- membership changes --

    async def join(
        self, room: str, user: str, via: Iterable[str] = (), content: Mapping[str, Any] | None = None
    ) -> str:
        """Join a room by its id or alias, and return its id. `content` holds further fields of the event."""
        room_id, servers = await self._resolve(room, via)
        async with self._joining.hold(room_id):
            await self._join(room_id, user, servers, content or {})
        await self._delete_outside(room_id, user)
        return room_id

    async def leave(self, room_id: str, user: str, content: Mapping[str, Any] | None = None) -> None:
        """Leave a room, reject an invite or withdraw a knock."""
        given = content or {}
        known = await self._fetch_outside(room_id, user)
        if known is None or await self._state.is_server_joined(room_id):
            await self._rooms.send_event(room_id, _MEMBER, {**given, "membership": "leave"}, user, user)
            await self._delete_outside(room_id, user)
            return
        servers = self._candidates(room_id, [known.server])
        for pause in (*_REJECT_RETRY_DELAYS, None):
            handshake = leave(room_id, user, given, servers, self._signer(), self._now_ms())
            done = await self._membership_client.run(handshake, room_id=room_id, user=user, membership="leave")
            if pause is None or not _is_forbidden(done):
                break
            # This server receives an invite before the inviting server has committed it, and that server
            # answers 403 until then.
            await asyncio.sleep(pause)
        # The invite or knock is deleted even if no server could be notified, since the user does not want it.
        await self._delete_outside(room_id, user)

    async def invite(self, room_id: str, sender: str, user: str, content: Mapping[str, Any] | None = None) -> Pdu:
        """Invite a user. The server of a remote user receives the invite first, and signs it."""
        given = {**(content or {}), "membership": "invite"}
        server = domain(user)
        if server is None or not is_user_id(user):
            raise MatrixError("M_INVALID_PARAM", f"{user[:255]} is not a user id.", 400)
        if server == self._server_name:
            return await self._rooms.send_event(room_id, _MEMBER, given, sender, user)
        version = await self._state.version(room_id)
        template = await self._rooms.prepare_event(room_id, NewEvent(_MEMBER, sender, given, user))
        invite = sign_event(template, version, self._signer())
        if isinstance(invite, BuildFailure):
            raise MatrixError("M_BAD_JSON", f"The invite cannot be created: {invite.problem}.", 400)
        signed = await self._get_invite_signature(server, room_id, invite, version)
        return await self._rooms.accept_membership(self._server_name, room_id, signed.event)

    async def knock(
        self, room: str, user: str, via: Iterable[str] = (), content: Mapping[str, Any] | None = None
    ) -> str:
        """Knock on a room by its id or alias, and return its id."""
        room_id, servers = await self._resolve(room, via)
        given = content or {}
        if await self._state.is_server_joined(room_id):
            await self._rooms.send_event(room_id, _MEMBER, {**given, "membership": "knock"}, user, user)
            return room_id
        # The knock is stored with the time before it was sent, since the invite that answers it may be stored
        # first and must not be replaced by the knock.
        began = self._now_ms()
        handshake = knock(room_id, user, given, servers, self._signer(), began)
        done = await self._membership_client.run(handshake, room_id=room_id, user=user, membership="knock")
        if isinstance(done, AllServersFailed):
            raise done.as_error()
        row = OutsideMembership(
            room_id,
            user,
            "knock",
            done.version.id,
            done.event.event_id,
            user,
            done.server,
            done.event.canonical,
            orjson.dumps(done.result.stripped),
            began,
        )
        async with self._database.transaction() as connection:
            await write_membership(connection, row)
        return room_id

    async def outside_memberships(self, user: str) -> list[OutsideMembership]:
        """The invites and knocks of a user for rooms that this server is not in. If it has joined a room
        since, the state of the room applies instead."""
        async with self._database.transaction(readonly=True) as connection:
            kept = await list_memberships_of_user(connection, user)
        return [one for one in kept if not await self._state.is_server_joined(one.room_id)]

    # -- joining --

    async def _join(self, room_id: str, user: str, servers: Sequence[str], content: Mapping[str, Any]) -> None:
        is_joined = await self._state.is_server_joined(room_id)
        known = await self._fetch_outside(room_id, user)
        if is_joined:
            try:
                given = {**content, **await self._authoriser_content(room_id, user), "membership": "join"}
                await self._rooms.send_event(room_id, _MEMBER, given, user, user)
            except MatrixError as refused:
                if not _may_join_through_others(refused, known):
                    raise
                servers = [*servers, *await self._rooms.servers_in_room(room_id)]
            else:
                return
        inviting_server = [] if known is None else [known.server]
        candidates = self._candidates(room_id, [*inviting_server, *servers])
        # Received events need not wait if this server has the room already.
        with contextlib.nullcontext() if is_joined else self._pending_joins.joining(room_id):
            await self._join_through_others(room_id, user, candidates, content)

    async def _authoriser_content(self, room_id: str, user: str) -> Mapping[str, str]:
        state = await self._state.for_join(room_id, user)
        memberships = await self._state.memberships_elsewhere(user, state)
        found = find_join_authoriser(user, state.events, state.version, memberships, self._server_name)
        return {AUTHORISER: found.authoriser} if isinstance(found, AuthorisedBy) else {}

    async def _join_through_others(
        self, room_id: str, user: str, servers: Sequence[str], content: Mapping[str, Any]
    ) -> None:
        problems: tuple[PeerError, ...] = ()
        left = list(dict.fromkeys(servers))
        while True:
            handshake = join(room_id, user, content, left, self._signer(), self._now_ms())
            done = await self._membership_client.run(handshake, room_id=room_id, user=user, membership="join")
            if isinstance(done, AllServersFailed):
                raise AllServersFailed((*problems, *done.problems)).as_error()
            try:
                await self._import_room(room_id, done)
            except PeerError as problem:
                # The room that it has returned is not valid. Another server may return a valid one.
                problems = (*problems, problem)
                left = left[left.index(done.server) + 1 :]
            else:
                return

    async def _import_room(self, room_id: str, done: HandshakeResult[JoinResult]) -> None:
        join = done.result.event.event
        if await self._state.is_server_joined(room_id):
            # This server has the room already. The other server has authorised the join, and sends it to the
            # rest.
            result = (await self._rooms.receive(done.server, [join])).get(done.event.event_id)
            if not isinstance(result, Accepted):
                raise PeerError(done.server, f"accepted a join that this server does not accept: {result}")
            return
        state = {pdu.event_id: pdu for pdu in done.result.state.values()}
        chain = done.result.auth_chain
        await self._rooms.import_room(
            done.server,
            done.version,
            state=[pdu.event for pdu in state.values()],
            # Each event once: verifying events is nearly all the work.
            auth_chain=[pdu.event for event_id, pdu in chain.items() if event_id not in state],
            event=join,
        )

    # -- inviting --

    async def _get_invite_signature(self, server: str, room_id: str, invite: Pdu, version: RoomVersion) -> Pdu:
        state = await self._rooms.current_events(room_id, selected_keys(invite.sender))
        try:
            answer = await self._membership_client.invite(
                server, room_id, invite.event_id, inviting.invite_request(invite, state, version)
            )
        except PeerError as problem:
            if isinstance(problem, PeerRefused) and problem.status == 404:
                user = invite.state_key
                raise MatrixError("M_NOT_FOUND", f"{server} has no user {user}.", 404) from problem
            raise AllServersFailed((problem,)).as_error() from problem
        signed = inviting.parse_invite_response(answer, invite, version)
        if isinstance(signed, str):
            raise MatrixError("M_UNKNOWN", f"{server} answered the invite with an invalid response: {signed}.", 502)
        if not await is_signed_by(self._keys, signed, version, server, self._now_ms()):
            raise MatrixError("M_UNKNOWN", f"The signature of {server} on the invite is not valid.", 502)
        return signed

    # -- finding servers --

    async def _resolve(self, room: str, via: Iterable[str]) -> tuple[str, list[str]]:
        """The room's id, and the servers through which to reach it."""
        if is_room_id(room):
            return room, self._candidates(room, via)
        if not is_room_alias(room):
            raise MatrixError("M_INVALID_PARAM", f"{room[:255]} is neither a room id nor an alias.", 400)
        server = domain(room) or ""
        if server == self._server_name:
            found = await self._local_alias(room)
        else:
            try:
                found = await self._membership_client.directory(server, room)
            except PeerError as problem:
                raise AllServersFailed((problem,)).as_error() from problem
        if found is None or not is_room_id(found[0]):
            raise MatrixError("M_NOT_FOUND", f"There is no room with the alias {room}.", 404)
        return found[0], self._candidates(found[0], [*via, *found[1]])

    def _candidates(self, room_id: str, servers: Iterable[str]) -> list[str]:
        """The distinct valid servers. Up to version 11 a room id contains the server that created the
        room."""
        named = [*servers, domain(room_id) or ""]
        return [name for name in dict.fromkeys(named) if is_server_name(name) and name != self._server_name]

    # -- stored invites and knocks --

    async def _fetch_outside(self, room_id: str, user: str) -> OutsideMembership | None:
        async with self._database.transaction(readonly=True) as connection:
            return await fetch_membership(connection, room_id, user)

    async def _delete_outside(self, room_id: str, user: str) -> None:
        async with self._database.transaction() as connection:
            await delete_membership(connection, room_id, user)


def _may_join_through_others(refused: MatrixError, known: OutsideMembership | None) -> bool:
    """Whether another server could accept a join that this one has refused."""
    if refused.errcode == "M_FORBIDDEN":
        # An invite that was sent while this server was joining the room. The inviting server has it in the
        # room; this server gets it only with a later event that follows it.
        return known is not None and known.membership == "invite"
    # No user of this server can authorise the join, but one of another server may.
    return refused.errcode in {"M_UNABLE_TO_AUTHORISE_JOIN", "M_UNABLE_TO_GRANT_JOIN"}


def _is_forbidden(done: HandshakeResult[None] | AllServersFailed) -> bool:
    return isinstance(done, AllServersFailed) and any(
        isinstance(problem, PeerRefused) and problem.status == 403 for problem in done.problems
    )
