"""The Socket.IO server: whoever connects, joins, leaves, asks and tells. Each request that waits for an
answer gets exactly one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

import socketio
from aiohttp import web
from socketio.exceptions import ConnectionRefusedError as Refuse

from bridge.connectors.offices.events import (
    CANCEL,
    CLIENT_EVENTS,
    ENTERED,
    JOIN,
    LEAVE,
    LEFT,
    LIST,
    NAMESPACE,
    SERVER_EVENTS,
    UPDATES,
)
from bridge.connectors.offices.flat_error import BAD_REQUEST, FORBIDDEN, INTERNAL, NOT_IN_ROOM, Flat, flat
from bridge.connectors.offices.office import (
    COMPUTER,
    Disconnect,
    Effects,
    Join,
    Leave,
    Left,
    Member,
    Offices,
    Refused,
)
from bridge.connectors.offices.protocol_version import ProtocolVersion
from bridge.connectors.offices.relay import Refusal, Rules, examine
from bridge.connectors.offices.service.connection import Connection
from bridge.connectors.offices.service.relaying import Answered, Gate, Relaying
from bridge.connectors.offices.service.relaying import Records as CallRecords
from bridge.connectors.offices.settings import OfficeSettings
from bridge.connectors.offices.shape import malformed
from bridge.connectors.offices.tokens import Grant
from bridge.connectors.offices.wire.routes import ACCEPTED, routes
from bridge.service.session import Report
from storage.connecting import ConnectionLost

Check = Callable[[str | None], Awaitable[Grant | None]]
HEADERS: Final = ("x-api-key", "access_token")
"""In which clients of before the handshake show their token."""
LONGEST_TOKEN: Final = 1_000
_NO_ANSWER: Final = ()


class Records(CallRecords, Protocol):
    """Where it is written down who comes and goes, and what is called."""

    async def joined(self, member: Member, version: ProtocolVersion | None) -> None: ...

    async def left(self, member: Member) -> None: ...


class SmcpServer:
    """`check` says whose a token is. It answers between `start` and `close`."""

    def __init__(
        self, settings: OfficeSettings, check: Check, records: Records, gate: Gate, *, report: Report
    ) -> None:
        self._settings = settings
        self._check = check
        self._records = records
        self._report = report
        self._offices = Offices(settings.most_members)
        self._connections: dict[str, Connection] = {}
        self._office_turns: dict[str, tuple[asyncio.Lock, int]] = {}
        self._io = socketio.AsyncServer(
            async_mode="aiohttp", namespaces=[NAMESPACE], logger=False, engineio_logger=False
        )
        self._io.register_namespace(_Namespace(self))
        self._relaying = Relaying(self, records, gate)
        self._rules = Rules(
            settings.profile, self._version_of, settings.relay_timeout, settings.most_calls_in_flight
        )
        self._is_open = False

    def routes(self) -> Iterable[web.RouteDef]:
        return routes(
            self._settings.path,
            self._io.handle_request,
            self._settings.versions,
            accept_unversioned=self._settings.accept_unversioned,
        )

    async def start(self) -> None:
        self._is_open = True

    async def close(self) -> None:
        """Everybody leaves, and the others are told."""
        if not self._is_open:
            return
        self._is_open = False
        for sid in tuple(self._connections):
            await self._disconnect(sid)
        await self._io.shutdown()

    def members(self) -> tuple[Member, ...]:
        """Who is in an office now."""
        return tuple(self._offices.all())

    async def stop(self, call_id: str) -> bool:
        """Tell the Computer that has the call; whether it was under way."""
        return await self._relaying.stop(call_id)

    # -- whose tokens --

    def token_ids(self) -> frozenset[str]:
        """With which somebody is connected."""
        return frozenset(connection.grant.token_id for connection in self._connections.values())

    async def disconnect_others(self, good: Collection[str]) -> None:
        """Whoever is connected with none of these leaves."""
        for sid, connection in tuple(self._connections.items()):
            if connection.grant.token_id not in good:
                await self._disconnect(sid)

    # -- what the relay needs of the transport --

    async def ask(self, event: str, said: Any, sid: str, answered: Answered) -> None:
        await self._io.emit(event, said, to=sid, namespace=NAMESPACE, callback=answered)

    async def tell(self, event: str, said: Any, sid: str) -> None:
        await self._io.emit(event, said, to=sid, namespace=NAMESPACE)

    # -- what comes from connections --

    async def connected(self, sid: str, environ: Mapping[str, Any], auth: object) -> None:
        """Raises what Socket.IO answers as a refusal."""
        request: web.Request = environ["aiohttp.request"]
        accepted = request.get(ACCEPTED)
        if not self._is_open or accepted is None:
            raise Refuse("The node is stopping." if accepted is not None else "Connect anew.")
        if len(self._connections) >= self._settings.max_connections:
            raise Refuse("There are too many connections.")
        try:
            grant = await self._check(_token(auth, request, unversioned=accepted.version is None))
        except ConnectionLost:
            raise Refuse("The node cannot look up tokens at the moment.") from None
        if grant is None:
            raise Refuse("Show a token of this node.")
        if not self._is_open:
            raise Refuse("The node is stopping.")
        self._connections[sid] = Connection(sid, grant, accepted.version)

    async def disconnected(self, sid: str) -> None:
        connection = self._connections.get(sid)
        if connection is None:
            return
        async with connection.turn:
            if self._connections.pop(sid, None) is None:
                return
            effects = self._offices.decide(sid, Disconnect())
            assert not isinstance(effects, Refused), "nobody is kept"
            try:
                await self._write_down(sid, effects)
            except Exception as error:
                # Nobody can be kept who is gone. The next start of the node writes it down.
                self._report(f"That {connection.grant.owner} has left could not be written down.", error)
            await self._carry_out(sid, effects)
            self._offices.forget(sid)
        await self._relaying.gone(sid)

    async def said(self, event: str, sid: str, said: object) -> Any:
        """The arguments of the answer; nothing where there is none."""
        connection = self._connections.get(sid)
        if connection is None:
            return _NO_ANSWER
        try:
            return await self._answer(event, connection, said)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # An exception would be no answer at all, and who asked would wait for the end of its patience.
            self._report(f"{event[:100]} of {connection.grant.owner} could not be answered.", error)
            if event in {JOIN, LEAVE}:
                return False, "Internal server error"
            return flat(INTERNAL, "Internal server error")

    # -- inside --

    async def _disconnect(self, sid: str) -> None:
        await self.disconnected(sid)
        await self._io.disconnect(sid, namespace=NAMESPACE)

    async def _answer(self, event: str, connection: Connection, said: object) -> Any:
        if event == JOIN:
            return await self._join(connection, said)
        if event == LEAVE:
            return await self._leave(connection, said)
        await connection.settled()
        if event in CLIENT_EVENTS or not event.startswith("server:"):
            return await self._relay(event, connection, said)
        known = SERVER_EVENTS.get(event)
        if known is None:
            return flat(BAD_REQUEST, f"There is no event {event[:100]}")
        wrong = malformed(known, said)
        if wrong is not None or not isinstance(said, dict):
            return flat(BAD_REQUEST, "" if wrong is None else wrong.sentence)
        if event == LIST:
            return self._list(connection, said)
        if event == CANCEL:
            await self._relaying.cancel(connection.sid, said["req_id"])
            return _NO_ANSWER
        return await self._update(connection, UPDATES[event])

    async def _join(self, connection: Connection, said: object) -> tuple[bool, str | None]:
        wrong = malformed(SERVER_EVENTS[JOIN], said)
        if wrong is not None or not isinstance(said, dict):
            return False, "" if wrong is None else wrong.sentence
        join = Join(said["role"], said["name"], said["office_id"])
        if not connection.grant.allows_role(join.role):
            return False, f"The token is not for the role {join.role}"
        if not connection.grant.allows_office(join.office_id):
            return False, "The token is not for this office"
        return await self._move(connection, join)

    async def _leave(self, connection: Connection, said: object) -> tuple[bool, str | None]:
        wrong = malformed(SERVER_EVENTS[LEAVE], said)
        if wrong is not None or not isinstance(said, dict):
            return False, "" if wrong is None else wrong.sentence
        return await self._move(connection, Leave(said["office_id"]))

    async def _move(self, connection: Connection, happened: Join | Leave) -> tuple[bool, str | None]:
        sid = connection.sid
        async with connection.turn:
            if sid not in self._connections:
                return False, "The connection has ended"
            async with AsyncExitStack() as stack:
                before = self._offices.member(sid)
                offices = {happened.office_id, *([] if before is None else [before.office_id])}
                for office_id in sorted(offices):
                    await stack.enter_async_context(_Turn(self._office_turns, office_id))
                effects = self._offices.decide(sid, happened)
                if isinstance(effects, Refused):
                    return False, effects.reason
                await self._write_down(sid, effects)
                await self._carry_out(sid, effects)
        return True, None

    async def _write_down(self, sid: str, effects: Effects) -> None:
        """All of it, before any of it holds."""
        for effect in effects:
            if isinstance(effect, Left):
                await self._records.left(effect.member)
            else:
                await self._records.joined(effect.member, self._version_of(sid))

    async def _carry_out(self, sid: str, effects: Effects) -> None:
        """Who leaves is taken out of the Socket.IO room last, and who enters hears of the others only after
        all of it holds."""
        for effect in effects:
            member = effect.member
            notice = {"office_id": member.office_id, member.role: member.name}
            if isinstance(effect, Left):
                await self._tell_office(LEFT, notice, member)
                self._offices.apply(sid, (effect,))
                await self._io.leave_room(sid, member.office_id, namespace=NAMESPACE)
                await self._relaying.gone(sid)
            else:
                self._offices.apply(sid, (effect,))
                await self._io.enter_room(sid, member.office_id, namespace=NAMESPACE)
                await self._tell_office(ENTERED, notice, member)

    async def _tell_office(self, event: str, said: Any, by: Member) -> None:
        await self._io.emit(event, said, room=by.office_id, skip_sid=by.sid, namespace=NAMESPACE)

    async def _relay(self, event: str, connection: Connection, said: object) -> Flat:
        sid = connection.sid
        found = examine(event, said, sid, self._offices, self._rules, in_flight=self._relaying.in_flight(sid))
        return found.answer if isinstance(found, Refusal) else await self._relaying.relay(found)

    def _list(self, connection: Connection, said: Mapping[str, Any]) -> Flat:
        member = self._offices.member(connection.sid)
        office_id = said["office_id"]
        is_own = member is not None and member.office_id == office_id
        if not is_own and not (self._settings.list_before_join and connection.grant.allows_office(office_id)):
            is_letter = self._settings.profile == "spec" and member is None
            return flat(NOT_IN_ROOM if is_letter else FORBIDDEN, "Not in office")
        sessions = [self._session(one) for one in self._offices.members(office_id)]
        return {"sessions": sessions, "req_id": said["req_id"]}

    def _session(self, member: Member) -> dict[str, Any]:
        version = self._version_of(member.sid)
        shown = {} if version is None else {"a2c_version": str(version)}
        return {
            "sid": member.sid, "name": member.name, "role": member.role, "office_id": member.office_id,
            **shown,
        }  # fmt: skip

    async def _update(self, connection: Connection, notice: str) -> Any:
        member = self._offices.member(connection.sid)
        if member is None or member.role != COMPUTER:
            return flat(FORBIDDEN, "Only a Computer in an office says what it has changed")
        # Whatever name it gives: the connection is who it is.
        await self._tell_office(notice, {"computer": member.name}, member)
        return _NO_ANSWER

    def _version_of(self, sid: str) -> ProtocolVersion | None:
        connection = self._connections.get(sid)
        return None if connection is None else connection.version


class _Namespace(socketio.AsyncNamespace):  # type: ignore[misc]  # it publishes no types
    """Everything comes through one door, whatever its event is called."""

    def __init__(self, server: SmcpServer) -> None:
        super().__init__(NAMESPACE)
        self._smcp = server

    async def trigger_event(self, event: str, *args: Any) -> Any:
        sid = args[0]
        if event == "connect":
            return await self._smcp.connected(sid, args[1], args[2] if len(args) > 2 else None)
        if event == "disconnect":
            return await self._smcp.disconnected(sid)
        return await self._smcp.said(event, sid, args[1] if len(args) > 1 else None)


class _Turn:
    """Of an office: what moves somebody there goes one after the other."""

    def __init__(self, turns: dict[str, tuple[asyncio.Lock, int]], office_id: str) -> None:
        self._turns = turns
        self._office_id = office_id

    async def __aenter__(self) -> None:
        lock, waiting = self._turns.get(self._office_id, (asyncio.Lock(), 0))
        self._turns[self._office_id] = lock, waiting + 1
        await lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        lock, waiting = self._turns[self._office_id]
        lock.release()
        if waiting == 1:
            del self._turns[self._office_id]
        else:
            self._turns[self._office_id] = lock, waiting - 1


def _token(auth: object, request: web.Request, *, unversioned: bool) -> str | None:
    """That of the CONNECT, or of a header, where clients of before the handshake write it."""
    shown = auth.get("token") if isinstance(auth, dict) else None
    if shown is None and unversioned:
        shown = next((request.headers[name] for name in HEADERS if name in request.headers), None)
    return shown if isinstance(shown, str) and len(shown) <= LONGEST_TOKEN else None
