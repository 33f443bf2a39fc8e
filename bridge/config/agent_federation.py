"""The section `[agent_federation]`: the keys that the CIS specification defines, and settings of this node
for what it leaves open."""

import re
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, ByteSize, Field, model_validator

from bridge.config.section import Namespace, Network, Seconds, Section, ServerName
from bridge.peers.peer import DEFAULT_NAMESPACE, Peer, PeerAccess, PeerProfile
from bridge.tasks.limits import TaskLimits
from federation.matrix.networks import Network as AdmittedNetwork
from federation.peers.limits import Rate

DEFAULT_PORT: Final = 7676
_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")
BURST: Final = 10
"""Seconds of the allowed rate that an idle requester may use at once."""


def node_url(value: str) -> str:
    """Validate a node's URL: a scheme, a host and optionally a port. Raises `ValueError`."""
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or len(value) > 255:
        raise ValueError("is not the URL of a node: write it like https://kitchen.local:7676")
    if "@" in parts.netloc or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("has more than a scheme, a host and a port: remove the rest")
    return value.rstrip("/")


def _key(value: str) -> str:
    if _KEY.fullmatch(value) is None:
        raise ValueError("is not an Ed25519 key: write the public key as 64 hexadecimal digits")
    return value.lower()


NodeUrl = Annotated[str, AfterValidator(node_url)]


class AgentRooms(Section):
    """The rooms in which this node announces its agents to other nodes, one for each namespace:
    #agent-federation-default:server_name."""

    namespace: Namespace = Field(
        default=DEFAULT_NAMESPACE, description="The namespace of agents that have none configured."
    )
    namespaces: list[Namespace] = Field(
        default=[],
        max_length=256,
        description="Additional namespaces. Each has its own room.",
        examples=[["team-a", "team-b"]],
    )
    federate: bool = Field(
        default=True, description="Whether other nodes may be members of the rooms. If not, no agents are exchanged."
    )
    join_rule: Literal["public", "invite"] = Field(
        default="public",
        description="Who may join the rooms to read: all users of servers that may federate with this one"
        " (`public`), or only the nodes in [[agent_federation.peers]] (`invite`).",
    )


class AgentLimits(Section):
    """Limits for requests of agents and their nodes. The node refuses a request that exceeds one and reports
    the reason to the requester."""

    requests_per_second: float = Field(
        default=200.0, gt=0, le=1_000_000, description="Maximum number of tasks per second that one agent requests."
    )
    requests_per_second_of_peer: float = Field(
        default=1_000.0,
        gt=0,
        le=1_000_000,
        description="Maximum number of tasks per second that all agents of one node request together.",
    )
    tasks_of_peer: int = Field(
        default=20_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of unfinished tasks that the agents of one node have requested.",
    )
    tasks: int = Field(default=50_000, ge=1, le=1_000_000, description="Maximum number of unfinished tasks in total.")
    max_request_size: ByteSize = Field(
        default=ByteSize(256 * 1024),
        ge=1024,
        le=16 * 1024 * 1024,
        description="Maximum size of a task's request: prompt, context and all other fields together.",
    )
    max_output_size: ByteSize = Field(
        default=ByteSize(1024 * 1024),
        ge=1024,
        le=64 * 1024 * 1024,
        description="Maximum size of an answer that is stored. Of a longer answer the beginning and the end"
        " are stored.",
    )
    max_task_timeout_secs: Seconds = Field(
        default=3600.0, description="The longest timeout, in seconds, that a request may set."
    )
    events_per_second_of_peer: float = Field(
        default=200.0,
        gt=0,
        le=1_000_000,
        description="Maximum number of single events per second that one published CIS node may send over HTTP.",
    )


class AgentPeer(Section):
    """A node with which this one exchanges agents. Write one `[[agent_federation.peers]]` block for each. A
    `[[peers]]` block for the same server is only needed to configure more about it."""

    node_id: ServerName = Field(
        description="The node's server name. Its agents have the addresses agent@node_id.", examples=["kitchen.local"]
    )
    url: NodeUrl | None = Field(
        default=None,
        description="The node's URL. Default: server discovery by its name. The profile `matrix` uses TLS"
        " for any scheme.",
        examples=["https://kitchen.local:7676"],
    )
    trusted: bool = Field(
        default=True, description="Whether to exchange agents with the node. If not, its requests are refused."
    )
    profile: PeerProfile = Field(
        default=PeerProfile.MATRIX,
        description="The node's protocol: `matrix` for Palaver, `cis-1.1` for published CIS nodes, which send"
        " single events over plain HTTP.",
    )
    namespaces: list[Namespace] | None = Field(
        default=None,
        min_length=1,
        description="The namespaces that the node may use. Default: only the first namespace of this node.",
        examples=[["default", "team-a"]],
    )
    networks: list[Network] = Field(
        default=[],
        description="With `cis-1.1`: the addresses from which the node sends. Default: the address in `url`.",
        examples=[["192.168.1.20/32"]],
    )
    signing_key: Annotated[str, AfterValidator(_key)] | None = Field(
        default=None,
        description="With `cis-1.1`: the node's public Ed25519 key in hexadecimal, if it has one. If the"
        " node is a Palaver, `palaver keys show` prints it there.",
        examples=["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"],
    )
    require_signature: bool = Field(
        default=False, description="With `cis-1.1`: whether the node's events must be signed with `signing_key`."
    )

    @model_validator(mode="after")
    def _fields_fit_the_profile(self) -> Self:
        if self.profile is PeerProfile.MATRIX:
            for name in ("networks", "signing_key", "require_signature"):
                if getattr(self, name):
                    raise ValueError(
                        f'{name} is only for profile = "cis-1.1": remove it, a homeserver signs its events anyway'
                    )
            return self
        if self.url is None:
            raise ValueError('profile = "cis-1.1" needs url: set the URL to which events are sent')
        if not self.sources:
            raise ValueError('profile = "cis-1.1" needs networks: set the addresses from which this peer sends')
        if self.require_signature and self.signing_key is None:
            raise ValueError("require_signature needs signing_key: set the peer's public key")
        return self

    @property
    def sources(self) -> tuple[AdmittedNetwork, ...]:
        """The networks from which a published node may send."""
        if self.networks or self.url is None:
            return tuple(self.networks)
        try:
            return (ip_network(ip_address(urlsplit(self.url).hostname or "")),)
        except ValueError:
            return ()

    @property
    def is_plain(self) -> bool:
        """Whether the peer sends plain HTTP to this node's port."""
        return self.profile is PeerProfile.CIS_1_1 and self.url is not None and self.url.startswith("http:")


class AgentFederation(Section):
    """Exchange of agents with other nodes."""

    enabled: bool = Field(
        default=True, description="Whether to exchange agents with the nodes in [[agent_federation.peers]]."
    )
    heartbeat_interval_secs: Seconds = Field(
        default=30.0, description="Seconds between two heartbeats that this node sends for its agents."
    )
    agent_timeout_secs: Seconds = Field(
        default=120.0, description="Seconds without a heartbeat after which a remote agent is treated as offline."
    )
    default_task_timeout_secs: Seconds = Field(
        default=300.0, description="Timeout, in seconds, of tasks whose request sets none."
    )
    room: AgentRooms = AgentRooms()
    limits: AgentLimits = AgentLimits()
    peers: list[AgentPeer] = Field(default=[], description="The nodes with which agents are exchanged.")

    @model_validator(mode="after")
    def _each_peer_once(self) -> Self:
        names = [peer.node_id.lower() for peer in self.peers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"peers name {', '.join(twice)} more than once: keep one block for each node")
        return self

    @model_validator(mode="after")
    def _timeout_spans_two_heartbeats(self) -> Self:
        if self.agent_timeout_secs < 2 * self.heartbeat_interval_secs:
            raise ValueError(
                "agent_timeout_secs is shorter than two heartbeats, so one late heartbeat would end a running"
                " agent: set a longer timeout"
            )
        return self

    @property
    def namespaces(self) -> tuple[str, ...]:
        """All namespaces of this node. The first is the default for agents and peers."""
        return tuple(dict.fromkeys((self.room.namespace, *self.room.namespaces)))

    def known_namespaces(self, namespaces: Iterable[str]) -> tuple[str, ...]:
        """Return the `namespaces` of an agent that this node has, or the default namespace if it has none of
        them."""
        wanted = set(namespaces)
        return tuple(namespace for namespace in self.namespaces if namespace in wanted) or self.namespaces[:1]


def access(peer: AgentPeer, main_namespace: str) -> PeerAccess:
    """Return the settings of a peer in the form that connectors use."""
    key = None if peer.signing_key is None else bytes.fromhex(peer.signing_key)
    spaces = frozenset(peer.namespaces or (main_namespace,))
    known = Peer(peer.node_id, peer.profile, peer.trusted, spaces, key, peer.require_signature)
    return PeerAccess(known, peer.url, peer.sources)


def homeserver_address(url: str | None) -> str | None:
    """Return `host:port` of a homeserver's `url`, or None if it is to be discovered by its server name."""
    if url is None:
        return None
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or DEFAULT_PORT}"


def task_limits(federation: AgentFederation) -> TaskLimits:
    limits = federation.limits
    return TaskLimits(
        default_timeout_ms=_ms(federation.default_task_timeout_secs),
        max_timeout_ms=_ms(limits.max_task_timeout_secs),
        max_request_bytes=limits.max_request_size,
        max_output_bytes=limits.max_output_size,
        agent_rate=_rate(limits.requests_per_second),
        node_rate=_rate(limits.requests_per_second_of_peer),
        max_live_per_node=limits.tasks_of_peer,
        max_live=limits.tasks,
    )


def _ms(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def _rate(per_second: float) -> Rate:
    return Rate(per_second, max(1, int(BURST * per_second)))
