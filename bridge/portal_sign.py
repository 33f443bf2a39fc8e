"""What a room of agents says of the bridge that it is: `m.bridge`, and the same under the name that clients
knew before. Element shows it in the settings of a room.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

TYPES: Final = ("m.bridge", "uk.half-shot.bridge")
PROTOCOL: Final = "agents"


def state_key(node_id: str, namespace: str) -> str:
    """No two portals have the same, also where several bridges are in one room."""
    return f"io.palaver://{PROTOCOL}/{quote(node_id, safe='')}/{quote(namespace, safe='')}"


def content(
    node_id: str, namespace: str, node_user: str, *, avatar_url: str | None = None
) -> Mapping[str, Any]:
    """MSC2346: who bridges, what, and which part of it this room is."""
    shown = {} if avatar_url is None else {"avatar_url": avatar_url}
    return {
        "bridgebot": node_user,
        "creator": node_user,
        "protocol": {"id": PROTOCOL, "displayname": "Palaver", **shown},
        "network": {"id": node_id, "displayname": f"Agents of {node_id}"},
        "channel": {"id": namespace, "displayname": namespace},
    }
