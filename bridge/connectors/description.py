"""The description of a connector: its configuration, commands and texts, available without starting it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from bridge.config.section import Section
from bridge.peers.peer import Peer
from storage.errors import LocalError

if TYPE_CHECKING:
    from bridge.config.config import NodeConfig


def _accept(config: "NodeConfig") -> None:
    """Accept every configuration."""


def _no_refusal(peer: Peer) -> LocalError | None:
    return None


def _no_aliases(config: "NodeConfig") -> Collection[str]:
    return ()


def _no_metrics(registry: CollectorRegistry) -> None:
    """Register no metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """`module` has a function `connect(parts: NodeParts) -> Connector`; it is imported when a node starts.

    `sections` are the connector's configuration models by section name; `check` raises ValueError if they
    conflict with other sections. `commands` are modules of the command line, imported when a command is
    called. `alias_kinds` returns the kinds of rooms whose aliases an application service has to reserve with
    this configuration. `wrong_peer` returns why a peer cannot be added. `health` is the path of the
    connector's health endpoint. Audit acts that begin with one of `notices` are notifications, not requests.
    `live` names the module with the functions `line` and `style` for each type of live event, which
    `palaver tail` imports. `metrics` registers the connector's metrics in a registry."""

    name: str
    module: str
    sections: Mapping[str, type[Section]] = field(default_factory=dict)
    check: Callable[["NodeConfig"], None] = _accept
    commands: Mapping[str, str] = field(default_factory=dict)
    alias_kinds: Callable[["NodeConfig"], Collection[str]] = _no_aliases
    wrong_peer: Callable[[Peer], LocalError | None] = _no_refusal
    health: str | None = None
    notices: Sequence[str] = ()
    live: Mapping[str, str] = field(default_factory=dict)
    metrics: Callable[[CollectorRegistry], object] = _no_metrics
