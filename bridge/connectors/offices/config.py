"""The configuration section [offices]: the A2C-SMCP server to which Agents and Computers connect."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from bridge.config.section import Seconds, Section
from bridge.connectors.offices.cluster.broker_address import BrokerAddress, InvalidBrokerAddress, parse_broker_address
from bridge.connectors.offices.protocol.errors import Profile
from bridge.connectors.offices.protocol.events import MAX_NAME_BYTES, is_name
from bridge.connectors.offices.protocol.versions import ProtocolLine, parse_line
from bridge.connectors.offices.settings import LINES, Approval, ApprovalRule, OfficeSettings
from bridge.people.permissions import EVERYBODY, rule_error
from bridge.text.times import seconds_of
from federation.matrix.globs import STAR
from federation.matrix.identifiers import is_server_name

if TYPE_CHECKING:
    from bridge.config.config import NodeConfig

SECTION: Final = "offices"
MAX_PATH_LENGTH: Final = 255
MAX_RULES: Final = 1_000
NEVER: Final = "never"
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)
# The node serves other endpoints on the same port at these paths.
_RESERVED: Final = frozenset({"_matrix", "_cis", "_palaver", ".well-known", "health"})


def _path(value: str) -> str:
    path = value.removesuffix("/")
    if not value.startswith("/"):
        raise ValueError("does not begin with a slash: write it like /socket.io")
    if ".." in value:
        raise ValueError('contains "..": write the path itself, like /socket.io')
    if _PATH.fullmatch(path) is None or len(path) > MAX_PATH_LENGTH:
        raise ValueError(
            f"is not a valid path: write up to {MAX_PATH_LENGTH} letters, digits and . _ ~ - between slashes,"
            " like /socket.io"
        )
    if path.split("/")[1] in _RESERVED:
        raise ValueError("is a path at which this node serves other requests: choose another one, like /socket.io")
    return path


def _line(text: str) -> ProtocolLine:
    line = parse_line(text)
    if line is None or str(line) != text:
        raise ValueError(f'"{text[:40]}" is not a version: write MAJOR.MINOR, like 0.4')
    return line


def _versions(versions: list[str]) -> list[str]:
    twice = sorted({text for text in versions if versions.count(text) > 1})
    for text in versions:
        _line(text)
    if twice:
        raise ValueError(f"{', '.join(twice)} is listed more than once: keep one of each")
    return versions


def _pattern(value: str) -> str:
    if not is_name(value):
        raise ValueError(
            f"is not a valid pattern: write 1 to {MAX_NAME_BYTES} bytes without spaces at the ends; * stands"
            " for any characters"
        )
    return value


def _key(value: str) -> str:
    if not is_name(value):
        raise ValueError(f"is not a valid name: write 1 to {MAX_NAME_BYTES} bytes without spaces at the ends")
    return value


def _nodes(names: list[str]) -> list[str]:
    for name in names:
        user, colon, server = name.partition(":") if name.startswith("@") else ("@", ":", name)
        if not user or not colon or not is_server_name(server):
            raise ValueError(f'"{name[:80]}" is neither a server name nor a user id pattern like @_agent_*:example.org')
    return names


def _approvers(names: list[str]) -> list[str]:
    for name in names:
        if rule_error(name) is not None or name == EVERYBODY:
            raise ValueError(f'"{name[:80]}" is neither a user id nor a server name')
    return names


def _broker(value: str) -> str:
    address = parse_broker_address(value) if value else None
    if isinstance(address, InvalidBrokerAddress):
        raise ValueError(address.reason)
    return value


def _period(value: str) -> str:
    if value != NEVER and seconds_of(value) is None:
        raise ValueError(f'is not a valid period: write a number and its unit, 90s, 15m, 2h or 30d, or "{NEVER}"')
    return value


Pattern = Annotated[str, AfterValidator(_pattern)]


class OfficeRule(Section):
    """Whether an Agent's call needs approval before it is sent to a Computer. Write one `[[offices.rules]]`
    block for each rule. The first rule that matches applies; without one, no approval is needed."""

    office: Pattern = Field(
        default=STAR, description="The offices to which the rule applies: an id, in which * stands for any characters."
    )
    tool: Pattern = Field(
        default=STAR,
        description="The tools to which the rule applies: a name as the Agent calls it, in which * stands for"
        " any characters.",
    )
    approval: Approval = Field(
        description="`auto`: no approval is needed; `ask`: a person must approve the call; `deny`: it is refused.",
        examples=["ask"],
    )
    deadline_secs: float = Field(
        default=60.0,
        ge=1,
        le=3600,
        description="With `ask`: timeout in seconds. Without an answer the call is refused.",
    )
    approvers: Annotated[list[str], AfterValidator(_approvers)] = Field(
        default=[],
        max_length=1_000,
        description="With `ask`: the users and servers that may approve calls. Default: users with the"
        " permission `administer`.",
        examples=[["@alice:example.org"]],
    )

    @model_validator(mode="after")
    def _approvers_need_ask(self) -> Self:
        if self.approvers and self.approval != "ask":
            raise ValueError(f'approvers have no effect with approval = "{self.approval}": write "ask", or omit them')
        return self

    @property
    def applies_to_all(self) -> bool:
        return not (self.office + self.tool).replace(STAR, "")


def _all_reachable(rules: list[OfficeRule]) -> list[OfficeRule]:
    if any(rule.applies_to_all for rule in rules[:-1]):
        raise ValueError("a rule for every office and every tool hides the rules after it: move it to the end")
    return rules


class Offices(Section):
    """Offices, in which an Agent calls the tools of Computers (A2C-SMCP). Clients of that protocol connect to
    this node with a token of `palaver offices token`."""

    enabled: bool = Field(default=False, description="Serve offices: clients can connect.")
    path: Annotated[str, AfterValidator(_path)] = Field(
        default="/socket.io", description="The path of Socket.IO on this node's port."
    )
    profile: Profile = Field(
        default="wire",
        description="`wire` is compatible with the published clients; `spec` follows the letter of the specification.",
    )
    versions: Annotated[list[str], AfterValidator(_versions)] = Field(
        default=[str(line) for line in LINES],
        min_length=1,
        max_length=100,
        description="Accepted protocol versions, MAJOR.MINOR. The profile `spec` accepts only the newest of them.",
    )
    accept_unversioned: bool = Field(
        default=True,
        description="Accept clients older than 0.2, which send no version and send their token in the HTTP"
        " header `x-api-key` or `access_token`. The profile `spec` never accepts them.",
    )
    list_before_join: bool = Field(
        default=False,
        description="Let a client list the members of an office that its token allows before it has joined one.",
    )
    relay_timeout_secs: Seconds = Field(
        default=60.0,
        description="Timeout in seconds for a Computer's answer. For calls of tools the Agent sets the timeout.",
    )
    most_calls_in_flight: int = Field(
        default=100, ge=1, le=100_000, description="Maximum number of unanswered calls of one connection."
    )
    most_members: int = Field(
        default=200, ge=1, le=100_000, description="Maximum number of Agents and Computers in one office."
    )
    max_connections: int = Field(
        default=1000, ge=1, le=100_000, description="Maximum number of connected Agents and Computers."
    )
    mask: list[Annotated[str, AfterValidator(_key)]] = Field(
        default=[],
        max_length=1_000,
        description="Further names of parameters whose values are hidden in rooms, in addition to those that"
        " are always hidden.",
        examples=[["customer_number"]],
    )
    nodes: Annotated[list[str], AfterValidator(_nodes)] = Field(
        default=[],
        max_length=1_000,
        description="Other nodes whose Agents and Computers may join offices of this node, as"
        " `office@this.node`: server names, or, for nodes attached to a homeserver as an application service,"
        " user id patterns in which * stands for any characters. [federation] must admit them as well.",
        examples=[["cellar.example.org", "@_agent_*:example.org"]],
    )
    broker: Annotated[str, AfterValidator(_broker)] = Field(
        default="",
        description="A broker that connects several processes of this node that serve the same offices: a"
        " Redis, as redis://HOST:PORT/NUMBER, or a Zenoh router, as tcp/HOST:PORT. A single process needs"
        " none.",
    )
    broker_password_file: Path | None = Field(
        default=None,
        description="A file that contains only the password for the Redis of `broker`.",
        examples=["/etc/palaver/broker-password"],
    )
    archive_after: Annotated[str, AfterValidator(_period)] = Field(
        default="30d",
        description="Archive an office's room when the office has had no members and no calls for this long:"
        " `90s`, `15m`, `2h`, `30d`, or `never`. The room is restored when a member joins.",
    )
    rules: Annotated[list[OfficeRule], AfterValidator(_all_reachable)] = Field(
        default=[], max_length=MAX_RULES, description="Rules for the approval of calls."
    )

    @model_validator(mode="after")
    def _password_needs_redis(self) -> Self:
        if self.broker_password_file is None:
            return self
        address = parse_broker_address(self.broker)
        if isinstance(address, InvalidBrokerAddress) or address.kind != "redis":
            raise ValueError(
                "broker_password_file is used only with a Redis as broker: set broker as well, or omit both"
            )
        return self


def offices_of(config: "NodeConfig") -> Offices:
    return config.section(SECTION, Offices)


def office_settings(offices: Offices, broker_password: str | None = None) -> OfficeSettings:
    """`broker_password` is the content of `broker_password_file`."""
    lines = tuple(sorted(map(_line, offices.versions)))
    is_wire = offices.profile == "wire"
    return OfficeSettings(
        offices.enabled,
        offices.path,
        offices.profile,
        lines if is_wire else lines[-1:],
        is_wire and offices.accept_unversioned,
        offices.list_before_join,
        offices.relay_timeout_secs,
        offices.most_calls_in_flight,
        offices.most_members,
        offices.max_connections,
        tuple(offices.mask),
        tuple(map(_rule, offices.rules)),
        None if offices.archive_after == NEVER else seconds_of(offices.archive_after),
        tuple(offices.nodes),
        _broker_address(offices.broker, broker_password),
    )


def _broker_address(text: str, password: str | None) -> BrokerAddress | None:
    address = parse_broker_address(text)
    return None if isinstance(address, InvalidBrokerAddress) else replace(address, password=password)


def _rule(rule: OfficeRule) -> ApprovalRule:
    return ApprovalRule(rule.office, rule.tool, rule.approval, rule.deadline_secs, tuple(rule.approvers))
