"""The configuration of the federation of agents: the section and the keys of the specification, and what it
leaves open."""

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
"""For so many seconds' worth somebody may have been silent and ask at once."""


def node_url(value: str) -> str:
    """Where a node is: a scheme, a host and perhaps a port, and nothing more."""
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or len(value) > 255:
        raise ValueError("is not the URL of a node: write it like https://kitchen.local:7676")
    if "@" in parts.netloc or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("has more in it than scheme, host and port: leave the rest out")
    return value.rstrip("/")


def _key(value: str) -> str:
    if _KEY.fullmatch(value) is None:
        raise ValueError("is not an Ed25519 key: write the public key's 64 hexadecimal digits")
    return value.lower()


NodeUrl = Annotated[str, AfterValidator(node_url)]


class AgentRooms(Section):
    """The rooms in which this node tells others of its agents, #agent-federation-default:server_name."""

    namespace: Namespace = Field(
        default=DEFAULT_NAMESPACE, description="The namespace of agents that name none."
    )
    namespaces: list[Namespace] = Field(
        default=[],
        max_length=256,
        description="Further namespaces, each with a room of its own.",
        examples=[["team-a", "team-b"]],
    )
    federate: bool = Field(
        default=True, description="Whether other nodes may be in them. If not, no agents are exchanged."
    )
    join_rule: Literal["public", "invite"] = Field(
        default="public",
        description="Who may come into them to read: everybody whose server may federate with this one"
        " (`public`), or only the nodes of the peers below (`invite`).",
    )


class AgentLimits(Section):
    """How much agents and their nodes may ask for. Beyond it they are refused, and told so."""

    requests_per_second: float = Field(
        default=200.0, gt=0, le=1_000_000, description="Tasks that one agent may ask for, a second."
    )
    requests_per_second_of_peer: float = Field(
        default=1_000.0, gt=0, le=1_000_000, description="Tasks that all agents of one node may ask for."
    )
    tasks_of_peer: int = Field(
        default=20_000, ge=1, le=1_000_000, description="Tasks of one node that have not ended, at most."
    )
    tasks: int = Field(
        default=50_000, ge=1, le=1_000_000, description="Tasks of all nodes that have not ended, at most."
    )
    max_request_size: ByteSize = Field(
        default=ByteSize(256 * 1024),
        ge=1024,
        le=16 * 1024 * 1024,
        description="What the prompt, the context and all else of one task may weigh.",
    )
    max_output_size: ByteSize = Field(
        default=ByteSize(1024 * 1024),
        ge=1024,
        le=64 * 1024 * 1024,
        description="How much of an answer is kept: of more, the beginning and the end.",
    )
    max_task_timeout_secs: Seconds = Field(
        default=3600.0, description="The longest that a task may be asked to take."
    )
    events_per_second_of_peer: float = Field(
        default=200.0,
        gt=0,
        le=1_000_000,
        description="Single events over HTTP that one published CIS node may send, a second.",
    )


class AgentPeer(Section):
    """A node with which this one exchanges agents. Write one `[[agent_federation.peers]]` block for each. It
    need not stand among the `[[peers]]` too, unless more is to be said of its server."""

    node_id: ServerName = Field(
        description="Its name: agents there are agent@node_id.", examples=["kitchen.local"]
    )
    url: NodeUrl | None = Field(
        default=None,
        description="Where it is. Left out: where its name leads. With the profile `matrix` it is spoken with"
        " over TLS, whatever the scheme.",
        examples=["https://kitchen.local:7676"],
    )
    trusted: bool = Field(
        default=True, description="Whether anything is exchanged with it. If not, it is refused by name."
    )
    profile: PeerProfile = Field(
        default=PeerProfile.MATRIX,
        description="How it speaks: `matrix` for Palaver, `cis-1.1` for the published CIS nodes, which send"
        " single events over plain HTTP.",
    )
    namespaces: list[Namespace] | None = Field(
        default=None,
        min_length=1,
        description="The namespaces that it may use. Left out: the first one of this node alone.",
        examples=[["default", "team-a"]],
    )
    networks: list[Network] = Field(
        default=[],
        description="With `cis-1.1`: the addresses that it sends from. Left out: the address in its url.",
        examples=[["192.168.1.20/32"]],
    )
    signing_key: Annotated[str, AfterValidator(_key)] | None = Field(
        default=None,
        description="With `cis-1.1`: its public Ed25519 key, hexadecimal, if it has one. Of a Palaver it is"
        " what `palaver keys show` says there.",
        examples=["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"],
    )
    require_signature: bool = Field(
        default=False, description="With `cis-1.1`: whether events of it must be signed with that key."
    )

    @model_validator(mode="after")
    def _what_a_published_node_needs(self) -> Self:
        if self.profile is PeerProfile.MATRIX:
            for name in ("networks", "signing_key", "require_signature"):
                if getattr(self, name):
                    raise ValueError(f'{name} is for profile = "cis-1.1": a homeserver signs what it sends')
            return self
        if self.url is None:
            raise ValueError('profile = "cis-1.1" needs url: events are sent there')
        if not self.sources:
            raise ValueError('profile = "cis-1.1" needs networks: the addresses that this peer sends from')
        if self.require_signature and self.signing_key is None:
            raise ValueError("require_signature needs signing_key: the key that must have signed")
        return self

    @property
    def sources(self) -> tuple[AdmittedNetwork, ...]:
        """From where a published node may send."""
        if self.networks or self.url is None:
            return tuple(self.networks)
        try:
            return (ip_network(ip_address(urlsplit(self.url).hostname or "")),)
        except ValueError:
            return ()

    @property
    def is_plain(self) -> bool:
        """Whether it speaks plain HTTP with this node's port."""
        return self.profile is PeerProfile.CIS_1_1 and self.url is not None and self.url.startswith("http:")


class AgentFederation(Section):
    """Agents on several nodes: who knows of whose agents, and for how long."""

    enabled: bool = Field(
        default=True, description="Whether agents are exchanged with the nodes of the peers below."
    )
    heartbeat_interval_secs: Seconds = Field(
        default=30.0, description="How often this node tells the others that its agents live."
    )
    agent_timeout_secs: Seconds = Field(
        default=120.0, description="Who has not been heard of for so long is taken for gone."
    )
    default_task_timeout_secs: Seconds = Field(
        default=300.0, description="What a task may take that says nothing of it."
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
    def _beats_within_the_timeout(self) -> Self:
        if self.agent_timeout_secs < 2 * self.heartbeat_interval_secs:
            raise ValueError(
                "agent_timeout_secs is shorter than two heartbeats: one that is late would end agents that"
                " live, make it longer"
            )
        return self

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The first one is for agents that name none."""
        return tuple(dict.fromkeys((self.room.namespace, *self.room.namespaces)))

    def known_namespaces(self, namespaces: Iterable[str]) -> tuple[str, ...]:
        """Those of an agent of this node. An agent that is in none of ours is in the first one."""
        said = set(namespaces)
        return tuple(one for one in self.namespaces if one in said) or self.namespaces[:1]


def access(peer: AgentPeer, main_namespace: str) -> PeerAccess:
    """What the connector is told of a peer."""
    key = None if peer.signing_key is None else bytes.fromhex(peer.signing_key)
    spaces = frozenset(peer.namespaces or (main_namespace,))
    known = Peer(peer.node_id, peer.profile, peer.trusted, spaces, key, peer.require_signature)
    return PeerAccess(known, peer.url, peer.sources)


def homeserver_address(url: str | None) -> str | None:
    """Where to connect to a homeserver that is at `url`, `host:port`. None: where its name leads."""
    if url is None:
        return None
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or DEFAULT_PORT}"


def task_limits(federation: AgentFederation) -> TaskLimits:
    limits = federation.limits
    return TaskLimits(
        default_timeout_ms=_ms(federation.default_task_timeout_secs),
        longest_timeout_ms=_ms(limits.max_task_timeout_secs),
        most_bytes=limits.max_request_size,
        most_output_bytes=limits.max_output_size,
        of_agent=_rate(limits.requests_per_second),
        of_node=_rate(limits.requests_per_second_of_peer),
        live_of_node=limits.tasks_of_peer,
        live=limits.tasks,
    )


def _ms(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def _rate(per_second: float) -> Rate:
    return Rate(per_second, max(1, int(BURST * per_second)))
