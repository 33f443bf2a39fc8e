"""What an office is called: `kitchen` by the node on which it lives, `kitchen@node` by all others.

Each client is spoken to of its office as it calls it: published Agents compare that with what they were
configured with.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from bridge.connectors.offices.shape import is_name
from federation.identifiers import is_server_name

_AT: Final = "@"


@dataclass(frozen=True, slots=True)
class OfficeName:
    """`server` is that of another node; None for an office that lives here."""

    name: str
    server: str | None = None

    @property
    def office_id(self) -> str:
        """By which this node knows it, whoever calls it what."""
        return self.name if self.server is None else f"{self.name}{_AT}{self.server}"


@dataclass(frozen=True, slots=True)
class NoOffice:
    """The sentence says why nothing can be called so."""

    sentence: str


def office_name(said: str, own: Collection[str]) -> OfficeName | NoOffice:
    """`own` are the names by which others know this node. What stands behind the last @ is a node only if it
    could be one."""
    name, at, server = said.rpartition(_AT)
    if not at or not is_server_name(server):
        return OfficeName(said)
    if not is_name(name):
        return NoOffice("there must be a name in front of the @")
    if office_name(name, ()) != OfficeName(name):
        # `a@b` of this node would be `a` of the node b.
        return NoOffice("there can be one @ with a node behind it")
    return OfficeName(name, None if server in own else server)
