"""Rule 4: rooms that keep to one server."""

from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.identifiers import domain


def check_federate(user: str, state: RoomState) -> Verdict:
    """Of the sender; and, as Synapse does, of who a membership event is about."""
    # 4. If the `content` of the `m.room.create` event in the room state has the property `m.federate` set
    #    to `false`, and the `sender` domain of the event does not match the `sender` domain of the create
    #    event, reject.
    #
    # Synapse closes the room for anything but `true`.
    if state.create.content.get("m.federate", True) is not True and domain(user) != domain(
        state.create.sender
    ):
        return refuse(state.version, "federate", user)
    return ALLOWED
