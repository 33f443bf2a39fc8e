"""What a homeserver is told once, when it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from federation.admission import Network
from federation.federation_policy import FederationPolicy, policy
from federation.media_location import NOT_PUBLIC
from federation.media_settings import MediaSettings
from federation.peer_limits import PeerLimits
from federation.peer_settings import PeerSettings
from federation.send_join_answer import MOST_MEMBERS_IN_FULL


@dataclass(frozen=True, slots=True)
class HomeserverSettings:
    """`authorities`: a file of certificates to trust beside the system's. `added_peers`: those that come and
    go while it runs, by their names in lower case, looked at each time; what `peers` says of a server goes
    further. `blocked`: networks into which no server may lead us that neither names. `name_servers`: asked
    instead of the system's."""

    server_name: str
    software_version: str
    media_directory: Path
    peers: Mapping[str, PeerSettings] = field(default_factory=dict)
    added_peers: Mapping[str, PeerSettings] = field(default_factory=dict)
    policy: FederationPolicy = field(default_factory=lambda: policy((), is_open=False))
    authorities: Path | None = None
    blocked: tuple[Network, ...] = NOT_PUBLIC
    name_servers: tuple[tuple[str, int], ...] = ()
    notaries: tuple[str, ...] = ()
    media: MediaSettings = field(default_factory=MediaSettings)
    # Whether other servers see the list of published rooms.
    shows_public_rooms: bool = True
    # Where others find this server, `host[:port]`, if that is not what its name says.
    delegated_name: str | None = None
    peer_limits: PeerLimits = field(default_factory=PeerLimits)
    # For how many days the audit goes back.
    audit_days: float = 90
    # How many members a room has at most of which all are told to a server that joins.
    members_in_full: int = MOST_MEMBERS_IN_FULL
