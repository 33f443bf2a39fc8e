"""The configuration of offices: of the A2C-SMCP server to which Agents and Computers connect."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from bridge.config.section import Seconds, Section
from bridge.connectors.offices.cluster.links import BrokerAddress, NoBroker, broker_address
from bridge.connectors.offices.protocol.errors import Profile
from bridge.connectors.offices.protocol.events import MOST_BYTES, is_name
from bridge.connectors.offices.protocol.versions import Line, parse_line
from bridge.connectors.offices.settings import LINES, Approval, ApprovalRule, OfficeSettings
from bridge.people.permissions import EVERYBODY, wrong_rule
from bridge.text.times import seconds_of
from federation.matrix.globs import STAR
from federation.matrix.identifiers import is_server_name

if TYPE_CHECKING:
    from bridge.config.config import NodeConfig

SECTION: Final = "offices"
LONGEST_PATH: Final = 255
MOST_RULES: Final = 1_000
NEVER: Final = "never"
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)
# Where something else answers on the same port.
_TAKEN: Final = frozenset({"_matrix", "_cis", "_palaver", ".well-known", "health"})


def _path(value: str) -> str:
    path = value.removesuffix("/")
    if not value.startswith("/"):
        raise ValueError("does not begin with a slash: write it like /socket.io")
    if ".." in value:
        raise ValueError('has ".." in it: name the path itself, like /socket.io')
    if _PATH.fullmatch(path) is None or len(path) > LONGEST_PATH:
        raise ValueError(
            f"is no path: write up to {LONGEST_PATH} letters, digits and . _ ~ - between slashes, and no"
            " blank, like /socket.io"
        )
    if path.split("/")[1] in _TAKEN:
        raise ValueError(
            "is a path on which this node answers other requests: choose another, like /socket.io"
        )
    return path


def _line(text: str) -> Line:
    line = parse_line(text)
    if line is None or str(line) != text:
        raise ValueError(f'"{text[:40]}" is no version: write MAJOR.MINOR, like 0.4')
    return line


def _versions(versions: list[str]) -> list[str]:
    twice = sorted({text for text in versions if versions.count(text) > 1})
    for text in versions:
        _line(text)
    if twice:
        raise ValueError(f"{', '.join(twice)} is named more than once: keep one of each")
    return versions


def _pattern(value: str) -> str:
    if not is_name(value):
        raise ValueError(
            f"is no pattern: write 1 to {MOST_BYTES} bytes without space around them; * stands for any"
            " characters"
        )
    return value


def _key(value: str) -> str:
    if not is_name(value):
        raise ValueError(
            f"is not the name of a key: it has 1 to {MOST_BYTES} bytes, none of them blank at an end"
        )
    return value


def _nodes(names: list[str]) -> list[str]:
    for name in names:
        user, colon, server = name.partition(":") if name.startswith("@") else ("@", ":", name)
        if not user or not colon or not is_server_name(server):
            raise ValueError(
                f'"{name[:80]}" is neither the name of a node, nor users of one like @_agent_*:example.org'
            )
    return names


def _approvers(names: list[str]) -> list[str]:
    for name in names:
        if wrong_rule(name) is not None or name == EVERYBODY:
            raise ValueError(f'"{name[:80]}" is neither a user id nor a server name')
    return names


def _broker(value: str) -> str:
    address = broker_address(value) if value else None
    if isinstance(address, NoBroker):
        raise ValueError(address.sentence)
    return value


def _span(value: str) -> str:
    if value != NEVER and seconds_of(value) is None:
        raise ValueError(
            f'is no span of time: write a number and its unit, 90s, 15m, 2h or 30d, or "{NEVER}"'
        )
    return value


Pattern = Annotated[str, AfterValidator(_pattern)]


class OfficeRule(Section):
    """Whether people are asked before an Agent's call reaches a Computer. Write one `[[offices.rules]]` block
    for each rule: the first that fits holds, and where none does, nobody is asked."""

    office: Pattern = Field(
        default=STAR,
        description="The offices that it is for: an id, in which * stands for any characters.",
    )
    tool: Pattern = Field(
        default=STAR,
        description="The tools that it is for: a name as the Agent calls it, in which * stands for any"
        " characters.",
    )
    approval: Approval = Field(
        description="`auto`: nobody is asked; `ask`: somebody has to agree; `deny`: it is refused.",
        examples=["ask"],
    )
    deadline_secs: float = Field(
        default=60.0,
        ge=1,
        le=3600,
        description="With `ask`: seconds for an answer to come; without one the call is refused.",
    )
    approvers: Annotated[list[str], AfterValidator(_approvers)] = Field(
        default=[],
        max_length=1_000,
        description="With `ask`: the users and servers that may agree. Left out: whoever has the permission"
        " `administer`.",
        examples=[["@alice:example.org"]],
    )

    @model_validator(mode="after")
    def _approvers_who_are_asked(self) -> Self:
        if self.approvers and self.approval != "ask":
            raise ValueError(
                f'approvers are not asked where approval = "{self.approval}": write "ask", or leave them out'
            )
        return self

    @property
    def is_for_all(self) -> bool:
        return not (self.office + self.tool).replace(STAR, "")


def _each_reached(rules: list[OfficeRule]) -> list[OfficeRule]:
    if any(rule.is_for_all for rule in rules[:-1]):
        raise ValueError(
            "after a rule for every office and every tool no other is looked at: put that one at the end"
        )
    return rules


class Offices(Section):
    """Offices, in which an Agent calls the tools of Computers (A2C-SMCP): clients of that protocol connect to
    this node with a token of `palaver offices token`."""

    enabled: bool = Field(default=False, description="Whether clients may connect.")
    path: Annotated[str, AfterValidator(_path)] = Field(
        default="/socket.io", description="The path of Socket.IO on the port of this node."
    )
    profile: Profile = Field(
        default="wire",
        description="`wire` serves the published clients as they are, `spec` keeps to the letter of the"
        " specification.",
    )
    versions: Annotated[list[str], AfterValidator(_versions)] = Field(
        default=[str(line) for line in LINES],
        min_length=1,
        max_length=100,
        description="The versions of the protocol that clients may speak, MAJOR.MINOR. With the profile"
        " `spec` it is the newest of them alone.",
    )
    accept_unversioned: bool = Field(
        default=True,
        description="Whether clients of before 0.2 may connect, which say no version and send their token in"
        " the HTTP header `x-api-key` or `access_token`. With the profile `spec` none may.",
    )
    list_before_join: bool = Field(
        default=False,
        description="Whether a client may ask who is in an office of its token before it has joined one.",
    )
    relay_timeout_secs: Seconds = Field(
        default=60.0,
        description="Seconds that a Computer is given for an answer. To the call of a tool it is given what"
        " the Agent says.",
    )
    most_calls_in_flight: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="Calls of one connection that are not answered yet, at most.",
    )
    most_members: int = Field(
        default=200, ge=1, le=100_000, description="Agents and Computers in one office, at most."
    )
    max_connections: int = Field(
        default=1000, ge=1, le=100_000, description="Agents and Computers that are connected, at most."
    )
    mask: list[Annotated[str, AfterValidator(_key)]] = Field(
        default=[],
        max_length=1_000,
        description="Further names of parameters whose values are hidden in rooms, beside those that always"
        " are.",
        examples=[["customer_number"]],
    )
    nodes: Annotated[list[str], AfterValidator(_nodes)] = Field(
        default=[],
        max_length=1_000,
        description="Whose Agents and Computers may be in offices of this node, as `office@this.node`: names"
        " of nodes, or users in whose names * stands for any characters, where the node is a guest of a"
        " homeserver. Nobody may unless named; they also have to be admitted by [federation].",
        examples=[["cellar.example.org", "@_agent_*:example.org"]],
    )
    broker: Annotated[str, AfterValidator(_broker)] = Field(
        default="",
        description="By which several processes of this node serve the same offices: a Redis, as"
        " redis://HOST:PORT/NUMBER, or a router of Zenoh, as tcp/HOST:PORT. Without one it is one process.",
    )
    broker_password_file: Path | None = Field(
        default=None,
        description="The file that holds the password for the Redis of `broker`, and nothing else.",
        examples=["/etc/palaver/broker-password"],
    )
    archive_after: Annotated[str, AfterValidator(_span)] = Field(
        default="30d",
        description="How long nobody has been in an office, and nothing was called there, when its room is"
        " archived: `90s`, `15m`, `2h`, `30d`, or `never`. Whoever joins it next brings it back.",
    )
    rules: Annotated[list[OfficeRule], AfterValidator(_each_reached)] = Field(
        default=[], max_length=MOST_RULES, description="Which calls people are asked about."
    )

    @model_validator(mode="after")
    def _password_for_a_redis(self) -> Self:
        if self.broker_password_file is None:
            return self
        address = broker_address(self.broker)
        if isinstance(address, NoBroker) or address.kind != "redis":
            raise ValueError(
                "broker_password_file is only used together with a Redis as broker: name that too, or leave"
                " both out"
            )
        return self


def offices_of(config: "NodeConfig") -> Offices:
    return config.section(SECTION, Offices)


def office_settings(offices: Offices, broker_password: str | None = None) -> OfficeSettings:
    """`broker_password` is what stands in that file."""
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


def _broker_address(said: str, password: str | None) -> BrokerAddress | None:
    address = broker_address(said)
    return None if isinstance(address, NoBroker) else replace(address, password=password)


def _rule(rule: OfficeRule) -> ApprovalRule:
    return ApprovalRule(rule.office, rule.tool, rule.approval, rule.deadline_secs, tuple(rule.approvers))
