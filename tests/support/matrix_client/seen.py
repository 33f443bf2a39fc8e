"""All that a person has seen: the merged responses of `/sync`."""

from collections import defaultdict
from dataclasses import dataclass, field

from tests.support.matrix_client.homeserver import Json

# As clients get it; those of a timeline carry their `room_id` here too.
Event = Json


@dataclass
class Seen:
    """Grows with each sync; only replaced state is dropped."""

    # Everything from the timelines, in the order of its coming, each event once.
    timeline: list[Event] = field(default_factory=list)
    # Of joined rooms, as of now: room → (type, state key) → event.
    state: defaultdict[str, dict[tuple[str, str], Event]] = field(default_factory=lambda: defaultdict(dict))
    typing: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    # Room → user → the event read last, by public receipts.
    read: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    presence: dict[str, Json] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    # Room → the stripped state that came with the invite or was given for the knock.
    invited: dict[str, list[Event]] = field(default_factory=dict)
    knocked: dict[str, list[Event]] = field(default_factory=dict)
    # Rooms with a limited timeline in a sync.
    gaps: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)

    def add(self, answer: Json) -> None:
        for event in answer.get("presence", {}).get("events", ()):
            self.presence[event["sender"]] = event["content"]
        rooms = answer.get("rooms", {})
        for room_id, room in rooms.get("invite", {}).items():
            self._move(room_id)
            self.invited[room_id] = room["invite_state"]["events"]
        for room_id, room in rooms.get("knock", {}).items():
            self._move(room_id)
            self.knocked[room_id] = room["knock_state"]["events"]
        for room_id, room in rooms.get("leave", {}).items():
            self._move(room_id)
            self.left.add(room_id)
            self._add_room(room_id, room)
        for room_id, room in rooms.get("join", {}).items():
            self._move(room_id)
            self.joined.add(room_id)
            self._add_room(room_id, room)

    def _move(self, room_id: str) -> None:
        """Move a room between the sections, so that it is in one at a time."""
        self.joined.discard(room_id)
        self.left.discard(room_id)
        self.invited.pop(room_id, None)
        self.knocked.pop(room_id, None)

    def _add_room(self, room_id: str, room: Json) -> None:
        timeline = room.get("timeline", {})
        if timeline.get("limited") and room_id in self.state:
            self.gaps.add(room_id)
        for event in [*room.get("state", {}).get("events", ()), *timeline.get("events", ())]:
            if "state_key" in event:
                self.state[room_id][event["type"], event["state_key"]] = {**event, "room_id": room_id}
        for event in timeline.get("events", ()):
            if event["event_id"] not in self._known:
                self._known.add(event["event_id"])
                self.timeline.append({**event, "room_id": room_id})
        for event in room.get("ephemeral", {}).get("events", ()):
            if event["type"] == "m.typing":
                self.typing[room_id] = set(event["content"]["user_ids"])
            elif event["type"] == "m.receipt":
                self._add_receipts(room_id, event["content"])

    def _add_receipts(self, room_id: str, content: Json) -> None:
        for event_id, kinds in content.items():
            for user_id in kinds.get("m.read", ()):
                self.read[room_id][user_id] = event_id
