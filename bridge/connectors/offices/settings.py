"""Settings of offices, derived from the configuration."""

from dataclasses import dataclass
from typing import Final, Literal

from bridge.connectors.offices.cluster.broker_address import BrokerAddress
from bridge.connectors.offices.protocol.errors import Profile
from bridge.connectors.offices.protocol.versions import ProtocolLine
from federation.matrix.globs import STAR, matches_glob

NAME: Final = "offices"
"""The connector's name."""
Approval = Literal["auto", "ask", "deny"]

LINES: Final = (ProtocolLine(0, 2), ProtocolLine(0, 3), ProtocolLine(0, 4))
"""The protocol lines of the published clients that send a version."""


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Whether a call needs approval. `deadline` is the number of seconds within which people can answer.
    `approvers` are users and servers; if empty, users with the permission `administer` approve."""

    office: str = STAR
    tool: str = STAR
    approval: Approval = "auto"
    deadline: float = 60.0
    approvers: tuple[str, ...] = ()

    def is_for(self, office_id: str, tool_name: str) -> bool:
        return matches_glob(self.office, office_id) and matches_glob(self.tool, tool_name)


NO_APPROVAL: Final = ApprovalRule()


@dataclass(frozen=True, slots=True)
class OfficeSettings:
    """`versions` are sorted and unique. `mask` holds further names of parameters whose values are hidden in
    rooms. Times are in seconds."""

    enabled: bool = False
    path: str = "/socket.io"
    profile: Profile = "wire"
    versions: tuple[ProtocolLine, ...] = LINES
    accept_unversioned: bool = True
    list_before_join: bool = False
    relay_timeout: float = 60.0
    # Limits per connection, per office, and per process.
    most_calls_in_flight: int = 100
    most_members: int = 200
    max_connections: int = 1000
    mask: tuple[str, ...] = ()
    rules: tuple[ApprovalRule, ...] = ()
    # Unused for this long, an office is archived; None: never.
    archive_after: float | None = 30 * 24 * 3_600.0
    # Servers, and user id patterns, whose members may join offices of this node.
    nodes: tuple[str, ...] = ()
    # Connects several processes of this node that serve the same offices; None: one process serves them.
    broker: BrokerAddress | None = None

    def rule(self, office_id: str, tool_name: str) -> ApprovalRule:
        """The first matching rule; without one, calls need no approval."""
        found = (rule for rule in self.rules if rule.is_for(office_id, tool_name))
        return next(found, NO_APPROVAL)
