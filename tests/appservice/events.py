"""Events in the format in which a homeserver pushes them."""

import json
from typing import Any

ROOM = "!kitchen:their.server"
ALICE = "@alice:their.server"
GHOST = "@_agent_worker-1:their.server"


def message(event_id: str = "$1", body: str = "peel", **more: Any) -> dict[str, Any]:
    """As Synapse formats it, including legacy fields."""
    event = {
        "event_id": event_id,
        "room_id": ROOM,
        "sender": ALICE,
        "user_id": ALICE,
        "type": "m.room.message",
        "content": {"msgtype": "m.text", "body": body},
        "origin_server_ts": 1_700_000_000_000,
        "age": 17,
        "unsigned": {"age": 17},
    }
    return {**event, **more}


def member(event_id: str, user: str, membership: str, **more: Any) -> dict[str, Any]:
    return message(event_id, type="m.room.member", state_key=user, content={"membership": membership}, **more)


def redaction(event_id: str, target: str, **more: Any) -> dict[str, Any]:
    return message(event_id, type="m.room.redaction", content={"redacts": target}, **more)


def numbered(number: int) -> list[dict[str, Any]]:
    """The events of one of many transactions: messages, and state of a room that a ghost has joined."""
    messages = [message(f"${number}.{part}") for part in range(3)]
    topic = message(f"${number}.3", type="m.room.topic", state_key="", content={"topic": str(number)})
    return [*messages, topic, member(f"${number}.4", GHOST, "join", sender=GHOST)]


def transaction(*events: Any, **more: Any) -> bytes:
    return json.dumps({"events": events, **more}).encode()
