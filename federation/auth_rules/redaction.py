"""Whether a redaction is applied. From room version 3 on this is no authorisation rule, but comes after
them."""

from collections.abc import Mapping

from federation.auth_rules.auth_event_selection import CREATE, POWER_LEVELS
from federation.auth_rules.levels import PowerLevels
from federation.identifiers import domain
from federation.pdu import Pdu, StateKey
from federation.room_version import RoomVersion


def is_applied(redaction: Pdu, target: Pdu, state: Mapping[StateKey, Pdu], version: RoomVersion) -> bool:
    """Room version 3, "Handling redactions", given the state before the redaction. Both events must have
    been seen; until then the redaction is held back."""
    if redaction.redacts(version) != target.event_id or redaction.room_id != target.room_id:
        return False
    # "1. The power level of the redaction event's `sender` is greater than or equal to the *redact level*."
    levels = PowerLevels(state.get(CREATE), state.get(POWER_LEVELS), version)
    if levels.of_user(redaction.sender) >= levels.of_action("redact"):
        return True
    # "2. The domain of the redaction event's `sender` matches that of the original event's `sender`."
    return domain(redaction.sender) == domain(target.sender)
