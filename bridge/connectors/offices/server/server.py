"""The Socket.IO server: connects clients and handles their events. Each request that expects an
acknowledgement gets exactly one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import socketio
from aiohttp import web
from socketio.exceptions import ConnectionRefusedError as Refuse

from bridge.connectors.offices.calls.direct_call import DirectCall, check_call, tools_request
from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.protocol.errors import (
    BAD_REQUEST,
    FORBIDDEN,
    INTERNAL,
    NOT_IN_ROOM,
    Ack,
    computer_not_found,
    connected_to_other_node,
    flat_error,
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
    find_malformed_field,
    reads_tasks,
)
from bridge.connectors.offices.protocol.office import (
    COMPUTER,
    InvalidOfficeName,
    Join,
    Leave,
    Member,
    is_remote,
    parse_office_name,
)
from bridge.connectors.offices.protocol.relay import Refusal, RelayRequest, RelayRules, check_request
from bridge.connectors.offices.rooms.call_events import ToolCall
from bridge.connectors.offices.server.calls import AnswerCallback, CallRelay, StopWaiting
from bridge.connectors.offices.server.memberships import Connection, Memberships
from bridge.connectors.offices.server.socket_io import ACCEPTED, SocketIO, routes
from bridge.connectors.offices.settings import OfficeSettings
from bridge.connectors.offices.tokens import Grant
from bridge.observability.report import Report
from federation.matrix.identifiers import domain
from storage.connect import ConnectionLost

if TYPE_CHECKING:
    from bridge.connectors.offices.calls.approvals import CallApprovals
    from bridge.connectors.offices.cluster.members import ClusterMembers
    from bridge.connectors.offices.federated.shared_offices import SharedOffices
    from bridge.connectors.offices.rooms.call_log import OfficeRecords


CheckToken = Callable[[str | None], Awaitable[Grant | None]]
TOKEN_HEADERS: Final = ("x-api-key", "access_token")
"""Headers in which clients without the version handshake send their token."""
MAX_TOKEN_LENGTH: Final = 1_000
TARGET_RULES: Final = frozenset({4, 5})
"""The numbers of the checks that fail because the target is not in the office or is no Computer."""
_NO_ANSWER: Final = ()


class SmcpServer:
    """Serves offices to Socket.IO clients. `check_token` returns what a token allows. `local_names` are the
    server names of this node. `broker` and `cluster` are set if several processes of the node serve the same
    offices. Requests are answered between `start` and `close`."""

    def __init__(
        self,
        settings: OfficeSettings,
        check_token: CheckToken,
        records: "OfficeRecords",
        approvals: "CallApprovals",
        *,
        report: Report,
        local_names: Collection[str] = (),
        shared: "SharedOffices | None" = None,
        broker: Broker | None = None,
        cluster: "ClusterMembers | None" = None,
    ) -> None:
        self._settings = settings
        self._check_token = check_token
        self._report = report
        self._local_names = local_names
        self._shared = shared
        self._broker = broker
        self._cluster = cluster
        self._io = SocketIO(
            async_mode="aiohttp", namespaces=[NAMESPACE], logger=False, engineio_logger=False, client_manager=broker
        )
        self._io.register_namespace(_Namespace(self))
        self._relay = CallRelay(self, records, approvals)
        self._memberships = Memberships(
            settings.most_members, records, self.emit, on_left=self._handle_left, report=report,
            shared=shared, cluster=cluster,
        )  # fmt: skip
        self._offices = self._memberships.offices
        self._connections = self._memberships.connections
        self._version_of = self._memberships.version_of
        self._rules = RelayRules(
            settings.profile, self._version_of, settings.relay_timeout, settings.most_calls_in_flight
        )
        self._is_open = False
        # Called after each change of membership, once it has taken effect.
        self.on_members_changed: Callable[[], None] = lambda: None
        # Called with the token's owner and the `req_id` of a cancel that matches no call in flight of its
        # connection.
        self.on_ignored_cancel: Callable[[str, str], None] = lambda owner, req_id: None
        # `on_members_changed` is set later, so it is looked up at each call.
        self._memberships.on_changed = lambda: self.on_members_changed()  # noqa: PLW0108

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
        """Disconnect all clients; each leave is recorded and the other members are notified."""
        if not self._is_open:
            return
        self._is_open = False
        for sid in tuple(self._connections):
            await self._disconnect(sid)
        await self._io.shutdown()

    def members(self) -> tuple[Member, ...]:
        """The members connected to this node, to whichever of its processes."""
        return tuple(one for one in self._offices.all() if not is_remote(one))

    def all_members(self) -> tuple[Member, ...]:
        """All members, including those connected to other nodes, which have user ids as connection ids."""
        return tuple(self._offices.all())

    async def cancel_recorded_call(self, call_id: str) -> bool:
        """Send a cancel notification for a call of the call log. Return whether it was in flight."""
        return await self._relay.cancel_by_call_id(call_id)

    def connection(self, sid: str) -> Connection | None:
        """None if the client is not connected to this process."""
        return self._connections.get(sid)

    # -- direct calls, which no member makes --

    async def call(self, call: DirectCall) -> Ack:
        checked = self._check_call(call)
        if isinstance(checked, Refusal) and await self._refreshed(checked, call.office_id):
            checked = self._check_call(call)
        if isinstance(checked, Refusal):
            return checked.answer
        if self._memberships.is_remote(checked.target.sid):
            return connected_to_other_node(call.computer, domain(checked.target.sid) or "another node")
        return await self._relay.relay(checked)

    async def cancel_call(self, call: DirectCall) -> bool:
        """Send a cancel notification to the Computer. Return whether the call was in flight."""
        return await self._relay.cancel(call.caller.sid, call.call_id)

    async def tools(self, office_id: str, computer: str, by: str, req_id: str, deadline: float) -> Ack:
        request = tools_request(office_id, computer, by, req_id, self._offices, deadline)
        if request is None or self._memberships.is_remote(request.target.sid):
            return computer_not_found(computer)
        return await self._relay.relay(request)

    # -- tokens --

    def token_ids(self) -> frozenset[str]:
        """The ids of the tokens with which clients are connected to this process."""
        return frozenset(connection.grant.token_id for connection in self._connections.values())

    async def disconnect_except(self, valid: Collection[str]) -> None:
        """Disconnect each client whose token id is not in `valid`."""
        for sid, connection in tuple(self._connections.items()):
            if connection.grant.token_id not in valid:
                await self._disconnect(sid)

    # -- events to a connection --

    async def emit_with_ack(self, event: str, payload: Any, sid: str, on_answer: AnswerCallback) -> None:
        await self._io.emit(event, payload, to=sid, namespace=NAMESPACE, callback=on_answer)

    async def emit(self, event: str, payload: Any, sid: str) -> None:
        await self._io.emit(event, payload, to=sid, namespace=NAMESPACE)

    # -- the transport of the relay --

    async def send_request(self, request: RelayRequest, on_answer: AnswerCallback) -> StopWaiting:
        """Send a request to its Computer. `on_answer` is called with the arguments of the acknowledgement, if
        one arrives; call the returned function when it is no longer awaited."""
        if self._shared is not None and self._memberships.is_remote(request.target.sid):
            return await self._shared.call(request, on_answer)
        await self.emit_with_ack(request.event.name, dict(request.payload), request.target.sid, on_answer)
        return _nothing_to_stop

    async def send_cancel(self, request: RelayRequest) -> None:
        """Notify the Computer. `agent` and `req_id` are those that it received with the call."""
        if self._shared is not None and self._memberships.is_remote(request.target.sid):
            await self._shared.cancel(request)
        else:
            payload = {"agent": request.payload["agent"], "req_id": request.req_id}
            await self.emit(CANCELLED, payload, request.target.sid)

    # -- from other nodes and other processes --

    async def refresh_members(self, office_id: str) -> None:
        """The state of the office's room or the records of another process have changed."""
        await self._memberships.refresh(office_id)

    def cluster_members(self, office_id: str) -> Collection[str]:
        """The connection ids of members on other processes, as far as their changes have been applied."""
        return self._memberships.cluster_members(office_id)

    def has_local_members(self, office_id: str) -> bool:
        """Whether any member is connected to this node, to whichever process."""
        return self._memberships.has_local_members(office_id)

    async def cancel_orphaned_call(self, office_id: str, call: ToolCall) -> None:
        """Send a cancel notification for a call whose process has ended."""
        target = self._offices.find(office_id, call.computer)
        if target is not None and target.role == COMPUTER and not is_remote(target):
            await self.emit(CANCELLED, {"agent": call.agent, "req_id": call.req_id}, target.sid)

    async def handle_remote_request(self, event: str, user: str, payload: object) -> Ack:
        """Answer a request of a member of another node, which is identified by its user id."""
        try:
            return await self._check_and_relay(event, user, payload)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._report(f"Failed to answer {event[:100]} from {user}.", error)
            return flat_error(INTERNAL, "Internal server error")

    async def cancel_remote_request(self, user: str, req_id: str) -> None:
        await self._relay.cancel(user, req_id)

    async def handle_remote_update(self, user: str, notice: str) -> None:
        """A Computer connected to another node or another process has sent an update."""
        member = self._offices.member(user)
        if member is not None and member.role == COMPUTER:
            await self._memberships.notify_office(notice, {"computer": member.name}, member)

    def call_id_of(self, user: str, req_id: str) -> str | None:
        """The id in the call log of a call that a member of another node has in flight."""
        return self._relay.call_id_of(user, req_id)

    # -- events from connections --

    async def handle_connect(self, sid: str, environ: Mapping[str, Any], auth: object) -> None:
        """Raises the exception that Socket.IO reports to the client as a connect error."""
        request: web.Request = environ["aiohttp.request"]
        accepted = request.get(ACCEPTED)
        if not self._is_open or accepted is None:
            raise Refuse("The node is stopping." if accepted is not None else "Start a new connection.")
        if len(self._connections) >= self._settings.max_connections:
            raise Refuse("The node has reached its maximum number of connections.")
        try:
            grant = await self._check_token(_token(auth, request, unversioned=accepted.version is None))
        except ConnectionLost:
            raise Refuse("The node cannot check tokens at the moment.") from None
        if grant is None:
            raise Refuse("The token is missing or not valid: connect with a token of this node.")
        if not self._is_open:
            raise Refuse("The node is stopping.")
        self._io.number_requests(sid)
        self._connections[sid] = Connection(sid, grant, accepted.version, reads_tasks(auth))

    async def handle_disconnect(self, sid: str) -> None:
        await self._memberships.disconnect(sid)

    async def handle_event(self, event: str, sid: str, payload: object) -> Any:
        """Return the arguments of the acknowledgement; an empty tuple if the event has none."""
        connection = self._connections.get(sid)
        if connection is None:
            return _NO_ANSWER
        try:
            return await self._answer(event, connection, payload)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Without an acknowledgement the client would wait until its own timeout.
            self._report(f"Failed to answer {event[:100]} from {connection.grant.owner}.", error)
            if event in {JOIN, LEAVE}:
                return False, "Internal server error"
            return flat_error(INTERNAL, "Internal server error")

    # -- internals --

    async def _disconnect(self, sid: str) -> None:
        await self.handle_disconnect(sid)
        await self._io.disconnect(sid, namespace=NAMESPACE)

    async def _answer(self, event: str, connection: Connection, payload: object) -> Any:
        if event == JOIN:
            return await self._join(connection, payload)
        if event == LEAVE:
            return await self._leave(connection, payload)
        await connection.wait_for_membership_change()
        if event in CLIENT_EVENTS or not event.startswith("server:"):
            return self._with_reason(connection, await self._check_and_relay(event, connection.sid, payload))
        known = SERVER_EVENTS.get(event)
        if known is None:
            return flat_error(BAD_REQUEST, f"Unknown event {event[:100]}")
        malformed = find_malformed_field(known, payload)
        if malformed is not None or not isinstance(payload, dict):
            return flat_error(BAD_REQUEST, "" if malformed is None else malformed.message)
        if event == LIST:
            return await self._list(connection, payload)
        if event == CANCEL:
            if not await self._relay.cancel(connection.sid, payload["req_id"]):
                self.on_ignored_cancel(connection.grant.owner, payload["req_id"])
            return _NO_ANSWER
        return await self._update(connection, UPDATES[event])

    async def _join(self, connection: Connection, payload: object) -> tuple[bool, str | None]:
        malformed = find_malformed_field(SERVER_EVENTS[JOIN], payload)
        if malformed is not None or not isinstance(payload, dict):
            return False, "" if malformed is None else malformed.message
        office = parse_office_name(payload["office_id"], self._local_names)
        if isinstance(office, InvalidOfficeName):
            return False, f"field 'office_id': {office.reason}"
        join = Join(payload["role"], payload["name"], office.office_id)
        if not connection.grant.allows_role(join.role):
            return False, f"The token does not allow the role {join.role}"
        if not connection.grant.allows_office(join.office_id):
            return False, "The token does not allow this office"
        if office.server is not None and self._shared is None:
            return False, "This node does not share offices with other nodes"
        return await self._memberships.change(connection, join, payload["office_id"])

    async def _leave(self, connection: Connection, payload: object) -> tuple[bool, str | None]:
        malformed = find_malformed_field(SERVER_EVENTS[LEAVE], payload)
        if malformed is not None or not isinstance(payload, dict):
            return False, "" if malformed is None else malformed.message
        leave = Leave(self._office_id(payload["office_id"]))
        return await self._memberships.change(connection, leave, payload["office_id"])

    def _office_id(self, client_office_id: str) -> str:
        """The id under which this node stores the office. An invalid name is returned unchanged: no office
        has it."""
        office = parse_office_name(client_office_id, self._local_names)
        return client_office_id if isinstance(office, InvalidOfficeName) else office.office_id

    async def _check_and_relay(self, event: str, sid: str, payload: object) -> Ack:
        checked = self._check(event, payload, sid)
        member = self._offices.member(sid)
        if isinstance(checked, Refusal) and member and await self._refreshed(checked, member.office_id):
            checked = self._check(event, payload, sid)
        return checked.answer if isinstance(checked, Refusal) else await self._relay.relay(checked)

    def _check(self, event: str, payload: object, sid: str) -> Refusal | RelayRequest:
        in_flight = self._relay.in_flight(sid)
        return check_request(event, payload, sid, self._offices, self._rules, in_flight=in_flight)

    def _check_call(self, call: DirectCall) -> Refusal | RelayRequest:
        in_flight = self._relay.in_flight(call.caller.sid)
        maximum = self._settings.most_calls_in_flight
        return check_call(call, self._offices, in_flight=in_flight, max_in_flight=maximum)

    async def _refreshed(self, refusal: Refusal, office_id: str) -> bool:
        """Reload the office if the target was not found: it may have just joined through another process.
        Return whether the request should be checked again."""
        if self._cluster is None or refusal.rule not in TARGET_RULES:
            return False
        await self._memberships.refresh(office_id)
        return True

    async def _handle_left(self, sid: str) -> None:
        await self._relay.handle_left(sid)
        if self._broker is not None:
            self._broker.drop_callbacks(sid)

    def _with_reason(self, connection: Connection, answer: Ack) -> Ack:
        """Add the reason for which the member was removed from its office, until it joins one again."""
        if not connection.eviction_reason or self._offices.member(connection.sid) is not None:
            return answer
        return {**answer, "details": {**answer.get("details", {}), "reason": connection.eviction_reason}}

    async def _list(self, connection: Connection, payload: Mapping[str, Any]) -> Ack:
        member = self._offices.member(connection.sid)
        office_id = self._office_id(payload["office_id"])
        is_own = member is not None and member.office_id == office_id
        if not is_own and not (self._settings.list_before_join and connection.grant.allows_office(office_id)):
            use_room_code = self._settings.profile == "spec" and member is None
            return flat_error(NOT_IN_ROOM if use_room_code else FORBIDDEN, "Not in office")
        if self._cluster is not None:
            await self._memberships.refresh(office_id)
        sessions = [self._session(one, payload["office_id"]) for one in self._offices.members(office_id)]
        return {"sessions": sessions, "req_id": payload["req_id"]}

    def _session(self, member: Member, client_office_id: str) -> dict[str, Any]:
        version = self._version_of(member.sid)
        version_field = {} if version is None else {"a2c_version": str(version)}
        return {
            "sid": member.sid, "name": member.name, "role": member.role, "office_id": client_office_id,
            **version_field,
        }  # fmt: skip

    async def _update(self, connection: Connection, notice: str) -> Any:
        member = self._offices.member(connection.sid)
        if member is None or member.role != COMPUTER:
            return flat_error(FORBIDDEN, "Only a Computer in an office can send updates")
        # The `computer` field of the event is ignored: the connection identifies the Computer.
        await self._memberships.notify_office(notice, {"computer": member.name}, member)
        if self._shared is not None:
            await self._shared.send_update(member, notice)
        if self._cluster is not None:
            self._cluster.publish_update(member, notice)
        return _NO_ANSWER


class _Namespace(socketio.AsyncNamespace):  # type: ignore[misc]  # it publishes no types
    """Routes all events to one handler, so that unknown events are answered too."""

    def __init__(self, server: SmcpServer) -> None:
        super().__init__(NAMESPACE)
        self._smcp = server

    async def trigger_event(self, event: str, *args: Any) -> Any:
        sid = args[0]
        if event == "connect":
            return await self._smcp.handle_connect(sid, args[1], args[2] if len(args) > 2 else None)
        if event == "disconnect":
            return await self._smcp.handle_disconnect(sid)
        return await self._smcp.handle_event(event, sid, args[1] if len(args) > 1 else None)


def _nothing_to_stop() -> None:
    """A Computer connected here answers or disconnects, so there is nothing to release."""


def _token(auth: object, request: web.Request, *, unversioned: bool) -> str | None:
    """The token of the CONNECT payload. Clients without the version handshake may send it in a header."""
    token = auth.get("token") if isinstance(auth, dict) else None
    if token is None and unversioned:
        token = next((request.headers[name] for name in TOKEN_HEADERS if name in request.headers), None)
    return token if isinstance(token, str) and len(token) <= MAX_TOKEN_LENGTH else None
