"""The state against which an event is checked, in the terms of the rules."""

from collections.abc import Mapping

from federation.auth_rules.auth_event_selection import JOIN_RULES, POWER_LEVELS
from federation.auth_rules.levels import PowerLevels
from federation.events import Pdu, StateKey
from federation.matrix.room_version import RoomVersion


class RoomState:
    """A lazy view of a room's state."""

    __slots__ = ("_levels", "_state", "create", "version")

    def __init__(self, state: Mapping[StateKey, Pdu], create: Pdu, version: RoomVersion) -> None:
        self._state = state
        self._levels: PowerLevels | None = None
        self.create = create
        self.version = version

    @property
    def levels(self) -> PowerLevels:
        if self._levels is None:
            self._levels = PowerLevels(self.create, self._state.get(POWER_LEVELS), self.version)
        return self._levels

    @property
    def join_rule(self) -> object:
        """The join rule. The default is `invite`. As in Synapse, an explicit `null` is a rule that no user
        can satisfy."""
        join_rules = self._state.get(JOIN_RULES)
        return "invite" if join_rules is None else join_rules.content.get("join_rule", "invite")

    def membership(self, user: str) -> object:
        """The user's current membership. None if there is no member event."""
        member = self._state.get(("m.room.member", user))
        return None if member is None else member.membership

    def event(self, type_: str, state_key: str) -> Pdu | None:
        return self._state.get((type_, state_key))
