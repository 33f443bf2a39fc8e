"""This server's users joining, leaving, inviting and knocking, wherever the room is.

The conversations with rooms that this server is not in, carried out: questions become requests.
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
from federation.memberships.remote_membership import (
    Answer,
    AskTemplate,
    Conversation,
    Done,
    HandIn,
    NobodyHelped,
    Question,
)
from federation.memberships.restricted_joins import VouchedFor, authorise
from federation.memberships.room_state import MembershipState
from federation.memberships.send_join_answer import SentJoin
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
"""Seconds for handing in a join: its answer is the whole state of a room."""


class Handshakes:
    def __init__(self, client: FederationClient) -> None:
        self._client = client

    async def hold(
        self, talk: Conversation[R], *, room_id: str, user: str, membership: str
    ) -> Done[R] | NobodyHelped:
        """Ask what the conversation asks until it is over."""
        answer: Answer | None = None
        while True:
            try:
                # Reading the state of a large room takes seconds, and everything else would wait.
                question = next(talk) if answer is None else await asyncio.to_thread(_send, talk, answer)
            except _Over as over:
                result: Done[R] | NobodyHelped = over.args[0]
                return result
            except StopIteration as end:  # nobody was to be asked
                ended: Done[R] | NobodyHelped = end.value
                return ended
            answer = await self._ask(question, room_id, user, membership)

    async def invite(
        self, server: str, room_id: str, event_id: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        target = request_target(
            f"{FEDERATION}/v2/invite/{{roomId}}/{{eventId}}", roomId=room_id, eventId=event_id
        )
        return await self._client.request("PUT", server, target, body)

    async def directory(self, server: str, alias: str) -> tuple[str, tuple[str, ...]]:
        """The room that an alias names, and the servers that are in it. Raises `PeerError`."""
        target = request_target(f"{FEDERATION}/v1/query/directory", query=[("room_alias", alias)])
        answer = await self._client.request("GET", server, target)
        room_id, servers = answer.get("room_id"), answer.get("servers")
        if not isinstance(room_id, str) or not isinstance(servers, list):
            raise PeerMalformed(server, "answered with something that names no room")
        return room_id, tuple(name for name in servers if isinstance(name, str))

    async def _ask(self, question: Question, room_id: str, user: str, membership: str) -> Answer:
        try:
            match question:
                case AskTemplate(server):
                    return await self._client.request("GET", server, _make(room_id, user, membership))
                case HandIn(server, event):
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


class _Over(Exception):
    """`StopIteration` cannot leave a thread."""


def _send(talk: Conversation[R], answer: Answer) -> Question:
    try:
        return talk.send(answer)
    except StopIteration as end:
        raise _Over(end.value) from None


def _make(room_id: str, user: str, membership: str) -> RequestTarget:
    # make_leave has no `ver`: who was invited knows the version.
    versions = () if membership == "leave" else tuple(("ver", version) for version in ROOM_VERSIONS)
    return request_target(
        f"{FEDERATION}/v1/make_{membership}/{{roomId}}/{{userId}}",
        roomId=room_id,
        userId=user,
        query=versions,
    )


LocalAlias = Callable[[str], Awaitable[tuple[str, Sequence[str]] | None]]
"""The room that an alias of this server names, and servers that are in it."""

_MEMBER: Final = "m.room.member"
_TOO_EARLY: Final = (0.2, 1.0, 3.0)
"""Seconds after which an invite is rejected again whose server does not know of it."""


class Membership:
    """Every refusal is a `MatrixError` for the person who asked."""

    def __init__(
        self,
        server_name: str,
        rooms: RoomGraph,
        handshakes: Handshakes,
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
        self._state = MembershipState(server_name, rooms)
        self._handshakes = handshakes
        self._keys = keys
        self._database = database
        self._signer = signer
        self._now_ms = now_ms
        self._local_alias = local_alias
        self._pending_joins = pending_joins or PendingJoins()
        # Two users who join the same room at once join it one after the other: the second finds it here.
        self._joining: KeyedLock[str] = KeyedLock()

    # -- what users do --

    async def join(
        self,
        room: str,
        user: str,
        via: Iterable[str] = (),
        content: Mapping[str, Any] | None = None,
    ) -> str:
        """Join a room by its id or alias; gives its id. `content` is what else the event says of the user."""
        room_id, servers = await self._resolve(room, via)
        async with self._joining.hold(room_id):
            await self._join(room_id, user, servers, content or {})
        await self._forget(room_id, user)
        return room_id

    async def leave(self, room_id: str, user: str, content: Mapping[str, Any] | None = None) -> None:
        """Leave, reject an invite or take back a knock."""
        said = content or {}
        known = await self._outside(room_id, user)
        if known is None or await self._state.is_here(room_id):
            await self._rooms.send_event(room_id, _MEMBER, {**said, "membership": "leave"}, user, user)
            await self._forget(room_id, user)
            return
        servers = self._candidates(room_id, [known.server])
        for pause in (*_TOO_EARLY, None):
            talk = leave(room_id, user, said, servers, self._signer(), self._now_ms())
            done = await self._handshakes.hold(talk, room_id=room_id, user=user, membership="leave")
            if pause is None or not _is_forbidden(done):
                break
            # An invite is here before the server that sent it has taken it in, and says until then that there
            # is none.
            await asyncio.sleep(pause)
        # Whether or not anybody could be told: who does not want to come is not kept waiting at the door.
        await self._forget(room_id, user)

    async def invite(
        self, room_id: str, sender: str, user: str, content: Mapping[str, Any] | None = None
    ) -> Pdu:
        """Invite somebody. A user of another server is invited there first, and that server signs."""
        said = {**(content or {}), "membership": "invite"}
        server = domain(user)
        if server is None or not is_user_id(user):
            raise MatrixError("M_INVALID_PARAM", f"{user[:255]} is not a user id.", 400)
        if server == self._server_name:
            return await self._rooms.send_event(room_id, _MEMBER, said, sender, user)
        version = await self._state.version(room_id)
        template = await self._rooms.prepare_event(room_id, NewEvent(_MEMBER, sender, said, user))
        invite = sign_event(template, version, self._signer())
        if isinstance(invite, BuildFailure):
            raise MatrixError("M_BAD_JSON", f"There can be no such invite: {invite.problem}.", 400)
        signed = await self._signed_by_invited(server, room_id, invite, version)
        return await self._rooms.accept_membership(self._server_name, room_id, signed.event)

    async def knock(
        self, room: str, user: str, via: Iterable[str] = (), content: Mapping[str, Any] | None = None
    ) -> str:
        """Ask to be invited into a room, by its id or alias; gives its id."""
        room_id, servers = await self._resolve(room, via)
        said = content or {}
        if await self._state.is_here(room_id):
            await self._rooms.send_event(room_id, _MEMBER, {**said, "membership": "knock"}, user, user)
            return room_id
        # The invite that answers it may be here before the knock is written down, and must outlive that.
        began = self._now_ms()
        talk = knock(room_id, user, said, servers, self._signer(), began)
        done = await self._handshakes.hold(talk, room_id=room_id, user=user, membership="knock")
        if isinstance(done, NobodyHelped):
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

    async def outside(self, user: str) -> list[OutsideMembership]:
        """The invites and knocks of a user in rooms that this server is not in. Where it has come into the
        room since, the room's state says what holds."""
        async with self._database.transaction(readonly=True) as connection:
            kept = await list_memberships_of_user(connection, user)
        return [one for one in kept if not await self._state.is_here(one.room_id)]

    # -- joining --

    async def _join(
        self, room_id: str, user: str, servers: Sequence[str], content: Mapping[str, Any]
    ) -> None:
        is_here = await self._state.is_here(room_id)
        known = await self._outside(room_id, user)
        if is_here:
            try:
                said = {**content, **await self._vouched_for(room_id, user), "membership": "join"}
                await self._rooms.send_event(room_id, _MEMBER, said, user, user)
            except MatrixError as refused:
                if not _may_be_let_in_elsewhere(refused, known):
                    raise
                servers = [*servers, *await self._rooms.servers_in_room(room_id)]
            else:
                return
        inviting_server = [] if known is None else [known.server]
        candidates = self._candidates(room_id, [*inviting_server, *servers])
        # What is said in a room that is here already need not wait.
        with contextlib.nullcontext() if is_here else self._pending_joins.joining(room_id):
            await self._join_over(room_id, user, candidates, content)

    async def _vouched_for(self, room_id: str, user: str) -> Mapping[str, str]:
        state = await self._state.of_join(room_id, user)
        memberships = await self._state.memberships_elsewhere(user, state)
        vouched = authorise(user, state.events, state.version, memberships, self._server_name)
        return (
            {"join_authorised_via_users_server": vouched.authoriser}
            if isinstance(vouched, VouchedFor)
            else {}
        )

    async def _join_over(
        self, room_id: str, user: str, servers: Sequence[str], content: Mapping[str, Any]
    ) -> None:
        problems: tuple[PeerError, ...] = ()
        left = list(dict.fromkeys(servers))
        while True:
            talk = join(room_id, user, content, left, self._signer(), self._now_ms())
            done = await self._handshakes.hold(talk, room_id=room_id, user=user, membership="join")
            if isinstance(done, NobodyHelped):
                raise NobodyHelped((*problems, *done.problems)).as_error()
            try:
                await self._take_in(room_id, done)
            except PeerError as problem:
                # What it gave does not hold when it is looked at closely. Others may give better.
                problems = (*problems, problem)
                left = left[left.index(done.server) + 1 :]
            else:
                return

    async def _take_in(self, room_id: str, done: Done[SentJoin]) -> None:
        join = done.result.event.event
        if await self._state.is_here(room_id):
            # Another server has vouched for the join, and sends it to the others; the room is here already.
            receipt = (await self._rooms.receive(done.server, [join])).get(done.event.event_id)
            if not isinstance(receipt, Accepted):
                raise PeerError(done.server, f"let us join with an event that is refused here: {receipt}")
            return
        state = {pdu.event_id: pdu for pdu in done.result.state.values()}
        chain = done.result.auth_chain
        await self._rooms.import_room(
            done.server,
            done.version,
            state=[pdu.event for pdu in state.values()],
            # Each event once: what is in both would be examined twice, and examining is nearly all the work.
            auth_chain=[pdu.event for event_id, pdu in chain.items() if event_id not in state],
            event=join,
        )

    # -- inviting --

    async def _signed_by_invited(self, server: str, room_id: str, invite: Pdu, version: RoomVersion) -> Pdu:
        state = await self._rooms.current_events(room_id, selected_keys(invite.sender))
        try:
            answer = await self._handshakes.invite(
                server, room_id, invite.event_id, inviting.request(invite, state, version)
            )
        except PeerError as problem:
            if isinstance(problem, PeerRefused) and problem.status == 404:
                user = invite.state_key
                raise MatrixError("M_NOT_FOUND", f"{server} knows of no user {user}.", 404) from problem
            raise NobodyHelped((problem,)).as_error() from problem
        signed = inviting.signed(answer, invite, version)
        if isinstance(signed, str):
            raise MatrixError(
                "M_UNKNOWN", f"{server} answered the invite with something wrong: {signed}.", 502
            )
        if not await is_signed_by(self._keys, signed, version, server, self._now_ms()):
            raise MatrixError("M_UNKNOWN", f"The signature of {server} on the invite does not hold.", 502)
        return signed

    # -- finding servers --

    async def _resolve(self, room: str, via: Iterable[str]) -> tuple[str, list[str]]:
        """The room's id, and the servers to ask."""
        if is_room_id(room):
            return room, self._candidates(room, via)
        if not is_room_alias(room):
            raise MatrixError("M_INVALID_PARAM", "This is neither the id of a room nor an alias.", 400)
        server = domain(room) or ""
        if server == self._server_name:
            found = await self._local_alias(room)
        else:
            try:
                found = await self._handshakes.directory(server, room)
            except PeerError as problem:
                raise NobodyHelped((problem,)).as_error() from problem
        if found is None or not is_room_id(found[0]):
            raise MatrixError("M_NOT_FOUND", f"There is no room called {room}.", 404)
        return found[0], self._candidates(found[0], [*via, *found[1]])

    def _candidates(self, room_id: str, servers: Iterable[str]) -> list[str]:
        """Each server once. Until version 11 a room id names the server that made the room."""
        named = [*servers, domain(room_id) or ""]
        return [name for name in dict.fromkeys(named) if is_server_name(name) and name != self._server_name]

    # -- what is kept --

    async def _outside(self, room_id: str, user: str) -> OutsideMembership | None:
        async with self._database.transaction(readonly=True) as connection:
            return await fetch_membership(connection, room_id, user)

    async def _forget(self, room_id: str, user: str) -> None:
        async with self._database.transaction() as connection:
            await delete_membership(connection, room_id, user)


def _may_be_let_in_elsewhere(refused: MatrixError, known: OutsideMembership | None) -> bool:
    """Whether another server could allow what was refused here."""
    if refused.errcode == "M_FORBIDDEN":
        # An invite that was made while this server came into the room: its own server has it, and here it is
        # part of the room only once something is said that follows it.
        return known is not None and known.membership == "invite"
    # Nobody here can vouch: perhaps somebody elsewhere can.
    return refused.errcode in {"M_UNABLE_TO_AUTHORISE_JOIN", "M_UNABLE_TO_GRANT_JOIN"}


def _is_forbidden(done: Done[None] | NobodyHelped) -> bool:
    return isinstance(done, NobodyHelped) and any(
        isinstance(problem, PeerRefused) and problem.status == 403 for problem in done.problems
    )
