"""What clients of the homeserver can look up of agents. Application service API, "Third-party networks"."""

from collections.abc import Mapping
from typing import Any, Final

from appservice.namespaces import AT, AgentRoom, Namespaces
from appservice.registration import PROTOCOL
from federation.identifiers import fits

AGENT: Final = "agent"
NODE: Final = "node"
NAMESPACE: Final = "namespace"


def protocol(namespaces: Namespaces) -> dict[str, Any]:
    """How agents are named, and which networks of them there are: one, this node's."""
    return {
        "user_fields": [NODE, AGENT],
        "location_fields": [NAMESPACE],
        "icon": "",
        "field_types": {
            AGENT: {"regexp": "[^@]+", "placeholder": "worker-1"},
            NODE: {"regexp": "[^@]+", "placeholder": namespaces.node_id},
            NAMESPACE: {"regexp": "[a-z0-9][a-z0-9._-]{0,63}", "placeholder": "default"},
        },
        "instances": [
            {
                "desc": f"Agents of {namespaces.node_id}",
                "network_id": namespaces.node_id,
                "fields": {NODE: namespaces.node_id},
            }
        ],
    }


def agent_asked_for(fields: Mapping[str, str], namespaces: Namespaces) -> tuple[str, str] | None:
    """Id and node. Without a node it is one of this node's; an address may be given whole."""
    agent_id, at, node_id = fields.get(AGENT, "").partition(AT)
    node_id = node_id if at else fields.get(NODE, namespaces.node_id)
    if not agent_id or not node_id or AT in node_id or not _is_text(agent_id) or not _is_text(node_id):
        return None
    return agent_id, node_id


def room_asked_for(fields: Mapping[str, str]) -> AgentRoom | None:
    namespace = fields.get(NAMESPACE, "")
    return AgentRoom("agents", namespace) if namespace and _is_text(namespace) else None


def user(agent: tuple[str, str], namespaces: Namespaces) -> dict[str, Any] | None:
    """None when no user can be called so."""
    user_id = namespaces.user(*agent)
    if user_id is None:
        return None
    return {"userid": user_id, "protocol": PROTOCOL, "fields": {AGENT: agent[0], NODE: agent[1]}}


def location(room: AgentRoom, namespaces: Namespaces) -> dict[str, Any] | None:
    """None for a room that people do not look for."""
    alias = namespaces.alias(room)
    if alias is None or room.kind != "agents":
        return None
    return {"alias": alias, "protocol": PROTOCOL, "fields": {NAMESPACE: room.namespace}}


def _is_text(value: str) -> bool:
    """What an address may hold, and a query may not bring: it was decoded by somebody else."""
    return fits(value) and "\0" not in value and not any("\ud800" <= one <= "\udfff" for one in value)
