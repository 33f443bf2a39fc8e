"""What the operator's commands work on."""

from collections.abc import Callable
from typing import Protocol

from federation.homeserver_settings import HomeserverSettings
from federation.service.audit import AuditTrail
from federation.service.client import FederationClient
from federation.service.key_ring import KeyRing
from federation.service.membership import Membership
from federation.service.outbox import Outbox
from federation.service.peer_connections import PeerConnections
from federation.service.resolver import Resolver
from federation.service.room_graph import RoomGraph
from storage.database import Database


class Parts(Protocol):
    """As much of `federation.service.homeserver.Homeserver` as they use."""

    @property
    def server_name(self) -> str: ...
    @property
    def settings(self) -> HomeserverSettings: ...
    @property
    def database(self) -> Database: ...
    @property
    def now_ms(self) -> Callable[[], int]: ...
    @property
    def resolver(self) -> Resolver: ...
    @property
    def connections(self) -> PeerConnections: ...
    @property
    def client(self) -> FederationClient: ...
    @property
    def key_ring(self) -> KeyRing: ...
    @property
    def outbox(self) -> Outbox: ...
    @property
    def graph(self) -> RoomGraph: ...
    @property
    def membership(self) -> Membership: ...
    @property
    def audit(self) -> AuditTrail: ...
