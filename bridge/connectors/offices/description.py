"""The description of the connector for offices, in which an Agent calls the tools of Computers."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.description import Description
from bridge.connectors.offices.config import SECTION, Offices, offices_of
from bridge.connectors.offices.rooms.office_room import ALIAS_KIND, member_of
from bridge.connectors.offices.settings import NAME

if TYPE_CHECKING:
    from bridge.config.config import NodeConfig


def check(config: "NodeConfig") -> None:
    """Refuse configured agents whose ids have the form of an office member's address."""
    for agent in config.agents if offices_of(config).enabled else ():
        address = AgentAddress.of(agent.id, config.server_name)
        if isinstance(address, AgentAddress) and member_of(address) is not None:
            raise ValueError(f"the agent {agent.id} has the id of a member of an office: choose an id without a slash")


def alias_kinds(config: "NodeConfig") -> Collection[str]:
    return (ALIAS_KIND,) if offices_of(config).enabled else ()


OFFICES: Final = Description(
    name=NAME,
    module="bridge.connectors.offices.connector",
    sections={SECTION: Offices},
    check=check,
    commands={"offices": "bridge.connectors.offices.cli"},
    alias_kinds=alias_kinds,
)
