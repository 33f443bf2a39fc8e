"""What a connector's package says of itself before anything runs: its configuration, its commands, how its
entries are shown."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from bridge.config.section import Section
from bridge.peers.peer import Peer
from storage.errors import LocalError

if TYPE_CHECKING:
    from bridge.config.config import NodeConfig


@dataclass(frozen=True, slots=True)
class LiveKind:
    """How `palaver tail` shows what a connector reports: the line of one entry, and its style."""

    line: Callable[[Mapping[str, Any]], str]
    style: Callable[[Mapping[str, Any]], str]


def _accept(config: "NodeConfig") -> None:
    """Nothing is wrong with it."""


def _no_refusal(peer: Peer) -> LocalError | None:
    return None


def _no_aliases(config: "NodeConfig") -> Collection[str]:
    return ()


def _no_metrics(registry: CollectorRegistry) -> None:
    """The connector counts nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """`module` has a function `connect(parts: NodeParts) -> Connector`; it is imported when a node starts.

    `sections` are models of the configuration by their names there, and `check` raises ValueError for what is
    wrong between them and other sections. `commands` are modules of the command line, imported when a command
    is called. `alias_kinds` are the kinds of rooms whose aliases an application service has to reserve with
    this configuration. `wrong_peer` says why a peer cannot be added. `health` is the path
    on which a node says its name. Acts in the audit that begin with `notices` were told, and not asked for.
    `live` is how `palaver tail` shows what it reports, by type. `metrics` makes its metrics in a registry."""

    name: str
    module: str
    sections: Mapping[str, type[Section]] = field(default_factory=dict)
    check: Callable[["NodeConfig"], None] = _accept
    commands: Mapping[str, str] = field(default_factory=dict)
    alias_kinds: Callable[["NodeConfig"], Collection[str]] = _no_aliases
    wrong_peer: Callable[[Peer], LocalError | None] = _no_refusal
    health: str | None = None
    notices: Sequence[str] = ()
    live: Mapping[str, LiveKind] = field(default_factory=dict)
    metrics: Callable[[CollectorRegistry], object] = _no_metrics
