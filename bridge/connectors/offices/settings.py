"""What the configuration says of offices."""

from dataclasses import dataclass
from typing import Final, Literal

from bridge.connectors.offices.cluster.links import BrokerAddress
from bridge.connectors.offices.protocol.errors import Profile
from bridge.connectors.offices.protocol.versions import Line
from federation.matrix.globs import STAR, matches_glob

Approval = Literal["auto", "ask", "deny"]

LINES: Final = (Line(0, 2), Line(0, 3), Line(0, 4))
"""Those of the published clients that say which one they speak."""


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Whether people are asked before a tool is called, and for how many seconds. `approvers` are users and
    servers; none of them: whoever may administer."""

    office: str = STAR
    tool: str = STAR
    approval: Approval = "auto"
    deadline: float = 60.0
    approvers: tuple[str, ...] = ()

    def is_for(self, office_id: str, tool_name: str) -> bool:
        return matches_glob(self.office, office_id) and matches_glob(self.tool, tool_name)


NOBODY_IS_ASKED: Final = ApprovalRule()


@dataclass(frozen=True, slots=True)
class OfficeSettings:
    """`versions` are in their order, each once. Of the keys in `mask` the values are hidden in rooms, beside
    those that always are. Times are seconds."""

    enabled: bool = False
    path: str = "/socket.io"
    profile: Profile = "wire"
    versions: tuple[Line, ...] = LINES
    accept_unversioned: bool = True
    list_before_join: bool = False
    relay_timeout: float = 60.0
    # Of one connection, of one office, and of the node.
    most_calls_in_flight: int = 100
    most_members: int = 200
    max_connections: int = 1000
    mask: tuple[str, ...] = ()
    rules: tuple[ApprovalRule, ...] = ()
    # Without anybody there and anything called; None: never.
    archive_after: float | None = 30 * 24 * 3_600.0
    # Whose members may be in offices of this node: servers, and users by pattern.
    nodes: tuple[str, ...] = ()
    # By which several processes of this node serve the same offices; None: one does.
    broker: BrokerAddress | None = None

    def rule(self, office_id: str, tool_name: str) -> ApprovalRule:
        """The first that is for them; there is always one."""
        found = (rule for rule in self.rules if rule.is_for(office_id, tool_name))
        return next(found, NOBODY_IS_ASKED)
