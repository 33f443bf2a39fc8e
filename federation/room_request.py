"""A room as somebody asks for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from federation.room_version import DEFAULT_ROOM_VERSION

Preset = Literal["private_chat", "trusted_private_chat", "public_chat"]
"""`private_chat`: by invite. `trusted_private_chat`: the same, and who is invited has the creator's power.
`public_chat`: everybody may come in."""


@dataclass(frozen=True, slots=True)
class InitialState:
    type: str
    content: Mapping[str, Any]
    state_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRequest:
    """What is None or empty is as the preset has it.

    `alias` and `room_id` are what stands before the colon. The latter is for versions until 11, whose rooms
    are named by their server; it needs `SideCapability.ROOM_IDS`. `listed` puts the room into the public
    directory. `allow` names the rooms whose members may join under the join rules `restricted` and
    `knock_restricted`. `power_levels` is laid over the usual ones, and so are the maps in it. `key`: asked
    for again with the same key by the same creator, it is the same room.
    """

    creator: str
    version: str = DEFAULT_ROOM_VERSION.id
    preset: Preset = "private_chat"
    room_type: str | None = None
    name: str | None = None
    topic: str | None = None
    avatar_url: str | None = None
    alias: str | None = None
    room_id: str | None = None
    listed: bool = False
    invite: Sequence[str] = ()
    is_direct: bool = False
    initial_state: Sequence[InitialState] = ()
    power_levels: Mapping[str, Any] = field(default_factory=dict)
    creation_content: Mapping[str, Any] = field(default_factory=dict)
    history_visibility: str | None = None
    join_rule: str | None = None
    allow: Sequence[str] = ()
    federate: bool = True
    key: str | None = None


@dataclass(frozen=True, slots=True)
class CreatedRoom:
    """`is_new` is false for one that was found by its key. `not_invited`: who could not be reached or may not
    be invited, and why; the room is there all the same."""

    room_id: str
    is_new: bool
    not_invited: Mapping[str, str] = field(default_factory=dict)
