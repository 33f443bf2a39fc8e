"""The Socket.IO server: whoever connects, joins, leaves, asks and tells. Each request that waits for an
answer gets exactly one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import socketio
from aiohttp import web
from socketio.exceptions import ConnectionRefusedError as Refuse

from bridge.connectors.offices.calls.direct_call import DirectCall, ask_for_tools, examine_call
from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.protocol.errors import (
    BAD_REQUEST,
    FORBIDDEN,
    INTERNAL,
    NOT_IN_ROOM,
    Flat,
    computer_not_found,
    connected_elsewhere,
    flat,
)
from bridge.connectors.offices.protocol.events import (
    CANCEL,
    CANCELLED,
    CLIENT_EVENTS,
    JOIN,
    LEAVE,
    LIST,
    NAMESPACE,
    SERVER_EVENTS,
    UPDATES,
    malformed,
    reads_tasks,
)
from bridge.connectors.offices.protocol.office import (
    COMPUTER,
    Join,
    Leave,
    Member,
    NoOffice,
    is_elsewhere,
    office_name,
)
from bridge.connectors.offices.protocol.relay import Refusal, Relay, Rules, examine
from bridge.connectors.offices.rooms.call_events import ToolCall
from bridge.connectors.offices.server.calls import Answered, Forget, Relaying
from bridge.connectors.offices.server.memberships import Connection, Memberships
from bridge.connectors.offices.server.socket_io import ACCEPTED, SocketIO, routes
from bridge.connectors.offices.settings import OfficeSettings
from bridge.connectors.offices.tokens import Grant
from bridge.observability.report import Report
from federation.matrix.identifiers import domain
from storage.connect import ConnectionLost

if TYPE_CHECKING:
    from bridge.connectors.offices.calls.approving import Approving
    from bridge.connectors.offices.cluster.members import Companions
    from bridge.connectors.offices.federated.shared_offices import SharedOffices
    from bridge.connectors.offices.rooms.call_log import OfficeRecords


Check = Callable[[str | None], Awaitable[Grant | None]]
HEADERS: Final = ("x-api-key", "access_token")
"""In which clients of before the handshake show their token."""
LONGEST_TOKEN: Final = 1_000
NOT_THERE: Final = frozenset({4, 5})
"""The rules by which nobody of that name can be asked."""
_NO_ANSWER: Final = ()


class SmcpServer:
    """`check` says whose a token is. `own` are the names by which others know this node. `broker` and
    `beside` are there where several processes of the node serve the same offices. It answers between `start`
    and `close`."""

    def __init__(
        self,
        settings: OfficeSettings,
        check: Check,
        records: "OfficeRecords",
        gate: "Approving",
        *,
        report: Report,
        own: Collection[str] = (),
        shared: "SharedOffices | None" = None,
        broker: Broker | None = None,
        beside: "Companions | None" = None,
    ) -> None:
        self._settings = settings
        self._check = check
        self._report = report
        self._own = own
        self._shared = shared
        self._broker = broker
        self._beside = beside
        self._io = SocketIO(
            async_mode="aiohttp",
            namespaces=[NAMESPACE],
            logger=False,
            engineio_logger=False,
            client_manager=broker,
        )
        self._io.register_namespace(_Namespace(self))
        self._relaying = Relaying(self, records, gate)
        self._memberships = Memberships(
            settings.most_members, records, self.tell, gone=self._gone, report=report, shared=shared,
            beside=beside,
        )  # fmt: skip
        self._offices = self._memberships.offices
        self._connections = self._memberships.connections
        self._version_of = self._memberships.version_of
        self._rules = Rules(
            settings.profile, self._version_of, settings.relay_timeout, settings.most_calls_in_flight
        )
        self._is_open = False
        # Told when somebody has come or gone: after it holds.
        self.moved: Callable[[], None] = lambda: None
        # Told of whoever would take back a call that is not its own, or is over, and of which call.
        self.ignored_cancel: Callable[[str, str], None] = lambda owner, req_id: None
        # It is given to us only later.
        self._memberships.moved = lambda: self.moved()  # noqa: PLW0108

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
        """Who is in an office now, and connected to this node, by whatever process of it."""
        return tuple(one for one in self._offices.all() if not is_elsewhere(one))

    def everybody(self) -> tuple[Member, ...]:
        """With members of other nodes, who are known by their users."""
        return tuple(self._offices.all())

    async def stop(self, call_id: str) -> bool:
        """Tell the Computer that has the call; whether it was under way."""
        return await self._relaying.stop(call_id)

    def connection(self, sid: str) -> Connection | None:
        """None for who is not connected to this process."""
        return self._connections.get(sid)

    # -- by who is no member --

    async def call(self, call: DirectCall) -> Flat:
        found = self._examine_call(call)
        if isinstance(found, Refusal) and await self._looked_again(found, call.office_id):
            found = self._examine_call(call)
        if isinstance(found, Refusal):
            return found.answer
        if self._memberships.is_elsewhere(found.target.sid):
            return connected_elsewhere(call.computer, domain(found.target.sid) or "another node")
        return await self._relaying.relay(found)

    async def take_back(self, call: DirectCall) -> bool:
        """Tell the Computer to stop; whether the call was under way."""
        return await self._relaying.cancel(call.caller.sid, call.call_id)

    async def tools(self, office_id: str, computer: str, by: str, req_id: str, deadline: float) -> Flat:
        relay = ask_for_tools(office_id, computer, by, req_id, self._offices, deadline)
        if relay is None or self._memberships.is_elsewhere(relay.target.sid):
            return computer_not_found(computer)
        return await self._relaying.relay(relay)

    # -- whose tokens --

    def token_ids(self) -> frozenset[str]:
        """With which somebody is connected."""
        return frozenset(connection.grant.token_id for connection in self._connections.values())

    async def disconnect_others(self, good: Collection[str]) -> None:
        """Whoever is connected with none of these leaves."""
        for sid, connection in tuple(self._connections.items()):
            if connection.grant.token_id not in good:
                await self._disconnect(sid)

    # -- to a connection --

    async def ask(self, event: str, said: Any, sid: str, answered: Answered) -> None:
        await self._io.emit(event, said, to=sid, namespace=NAMESPACE, callback=answered)

    async def tell(self, event: str, said: Any, sid: str) -> None:
        await self._io.emit(event, said, to=sid, namespace=NAMESPACE)

    # -- what the relay needs of the transport --

    async def bring(self, relay: Relay, answered: Answered) -> Forget:
        """`answered` is called with the arguments of the answer, if one comes. The result is called when none
        is awaited any more."""
        if self._shared is not None and self._memberships.is_elsewhere(relay.target.sid):
            return await self._shared.ask(relay, answered)
        await self.ask(relay.event.name, dict(relay.said), relay.target.sid, answered)
        return _nothing

    async def stop_asking(self, relay: Relay) -> None:
        """The Computer is told, in the words by which it knows the call."""
        if self._shared is not None and self._memberships.is_elsewhere(relay.target.sid):
            await self._shared.stop(relay)
        else:
            said = {"agent": relay.said["agent"], "req_id": relay.req_id}
            await self.tell(CANCELLED, said, relay.target.sid)

    # -- what comes from members of other nodes, and from other processes --

    async def follow(self, office_id: str) -> None:
        """The room of an office says something new of who is there, or another process does."""
        await self._memberships.follow(office_id)

    def companions(self, office_id: str) -> Collection[str]:
        """The connections of its members to other processes, as far as it has followed."""
        return self._memberships.companions(office_id)

    def is_used(self, office_id: str) -> bool:
        """Whether any member of this node is in it, in whatever process."""
        return self._memberships.is_used(office_id)

    async def stop_call(self, office_id: str, call: ToolCall) -> None:
        """One whose process has ended."""
        target = self._offices.named(office_id, call.computer)
        if target is not None and target.role == COMPUTER and not is_elsewhere(target):
            await self.tell(CANCELLED, {"agent": call.agent, "req_id": call.req_id}, target.sid)

    async def asked(self, event: str, user: str, said: object) -> Flat:
        """By a member of another node, which is known here by its user."""
        try:
            return await self._relay(event, user, said)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._report(f"{event[:100]} of {user} could not be answered.", error)
            return flat(INTERNAL, "Internal server error")

    async def taken_back(self, user: str, req_id: str) -> None:
        await self._relaying.cancel(user, req_id)

    async def told(self, user: str, notice: str) -> None:
        """A Computer of another node has changed, or of another process."""
        member = self._offices.member(user)
        if member is not None and member.role == COMPUTER:
            await self._memberships.tell_office(notice, {"computer": member.name}, member)

    def call_under_way(self, user: str, req_id: str) -> str | None:
        """The id under which a call by a member of another node was written down."""
        return self._relaying.call_under_way(user, req_id)

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
        self._connections[sid] = Connection(sid, grant, accepted.version, reads_tasks(auth))

    async def disconnected(self, sid: str) -> None:
        await self._memberships.end(sid)

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
            return self._with_reason(connection, await self._relay(event, connection.sid, said))
        known = SERVER_EVENTS.get(event)
        if known is None:
            return flat(BAD_REQUEST, f"There is no event {event[:100]}")
        wrong = malformed(known, said)
        if wrong is not None or not isinstance(said, dict):
            return flat(BAD_REQUEST, "" if wrong is None else wrong.sentence)
        if event == LIST:
            return await self._list(connection, said)
        if event == CANCEL:
            if not await self._relaying.cancel(connection.sid, said["req_id"]):
                self.ignored_cancel(connection.grant.owner, said["req_id"])
            return _NO_ANSWER
        return await self._update(connection, UPDATES[event])

    async def _join(self, connection: Connection, said: object) -> tuple[bool, str | None]:
        wrong = malformed(SERVER_EVENTS[JOIN], said)
        if wrong is not None or not isinstance(said, dict):
            return False, "" if wrong is None else wrong.sentence
        office = office_name(said["office_id"], self._own)
        if isinstance(office, NoOffice):
            return False, f"field 'office_id': {office.sentence}"
        join = Join(said["role"], said["name"], office.office_id)
        if not connection.grant.allows_role(join.role):
            return False, f"The token is not for the role {join.role}"
        if not connection.grant.allows_office(join.office_id):
            return False, "The token is not for this office"
        if office.server is not None and self._shared is None:
            return False, "Offices of other nodes are not to be reached from here"
        return await self._memberships.move(connection, join, said["office_id"])

    async def _leave(self, connection: Connection, said: object) -> tuple[bool, str | None]:
        wrong = malformed(SERVER_EVENTS[LEAVE], said)
        if wrong is not None or not isinstance(said, dict):
            return False, "" if wrong is None else wrong.sentence
        leave = Leave(self._office_id(said["office_id"]))
        return await self._memberships.move(connection, leave, said["office_id"])

    def _office_id(self, said: str) -> str:
        """By which this node knows it; what nothing can be called is as good as any other that is not
        there."""
        office = office_name(said, self._own)
        return said if isinstance(office, NoOffice) else office.office_id

    async def _relay(self, event: str, sid: str, said: object) -> Flat:
        found = self._examine(event, said, sid)
        member = self._offices.member(sid)
        if isinstance(found, Refusal) and member and await self._looked_again(found, member.office_id):
            found = self._examine(event, said, sid)
        return found.answer if isinstance(found, Refusal) else await self._relaying.relay(found)

    def _examine(self, event: str, said: object, sid: str) -> Refusal | Relay:
        in_flight = self._relaying.in_flight(sid)
        return examine(event, said, sid, self._offices, self._rules, in_flight=in_flight)

    def _examine_call(self, call: DirectCall) -> Refusal | Relay:
        in_flight = self._relaying.in_flight(call.caller.sid)
        most = self._settings.most_calls_in_flight
        return examine_call(call, self._offices, in_flight=in_flight, most_in_flight=most)

    async def _looked_again(self, refused: Refusal, office_id: str) -> bool:
        """Whoever is not there may have come to another process in this very moment."""
        if self._beside is None or refused.rule not in NOT_THERE:
            return False
        await self._memberships.follow(office_id)
        return True

    async def _gone(self, sid: str) -> None:
        await self._relaying.gone(sid)
        if self._broker is not None:
            self._broker.forget(sid)

    def _with_reason(self, connection: Connection, answer: Flat) -> Flat:
        """Whoever had to leave hears why from what it is refused next."""
        if not connection.had_to_leave or self._offices.member(connection.sid) is not None:
            return answer
        return {**answer, "details": {**answer.get("details", {}), "reason": connection.had_to_leave}}

    async def _list(self, connection: Connection, said: Mapping[str, Any]) -> Flat:
        member = self._offices.member(connection.sid)
        office_id = self._office_id(said["office_id"])
        is_own = member is not None and member.office_id == office_id
        if not is_own and not (self._settings.list_before_join and connection.grant.allows_office(office_id)):
            is_letter = self._settings.profile == "spec" and member is None
            return flat(NOT_IN_ROOM if is_letter else FORBIDDEN, "Not in office")
        if self._beside is not None:
            await self._memberships.follow(office_id)
        sessions = [self._session(one, said["office_id"]) for one in self._offices.members(office_id)]
        return {"sessions": sessions, "req_id": said["req_id"]}

    def _session(self, member: Member, office_said: str) -> dict[str, Any]:
        version = self._version_of(member.sid)
        shown = {} if version is None else {"a2c_version": str(version)}
        return {
            "sid": member.sid, "name": member.name, "role": member.role, "office_id": office_said,
            **shown,
        }  # fmt: skip

    async def _update(self, connection: Connection, notice: str) -> Any:
        member = self._offices.member(connection.sid)
        if member is None or member.role != COMPUTER:
            return flat(FORBIDDEN, "Only a Computer in an office says what it has changed")
        # Whatever name it gives: the connection is who it is.
        await self._memberships.tell_office(notice, {"computer": member.name}, member)
        if self._shared is not None:
            await self._shared.tell(member, notice)
        if self._beside is not None:
            self._beside.updated(member, notice)
        return _NO_ANSWER


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


def _nothing() -> None:
    """A Computer that is connected here answers or has gone."""


def _token(auth: object, request: web.Request, *, unversioned: bool) -> str | None:
    """That of the CONNECT, or of a header, where clients of before the handshake write it."""
    shown = auth.get("token") if isinstance(auth, dict) else None
    if shown is None and unversioned:
        shown = next((request.headers[name] for name in HEADERS if name in request.headers), None)
    return shown if isinstance(shown, str) and len(shown) <= LONGEST_TOKEN else None
