"""What is worth something for a moment, as those who listen are told of it, and messages to devices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from federation.edu import DeviceListUpdate, Other, PresenceOfUser, Receipt, SigningKeyUpdate, ToDevice

PresenceState = Literal["online", "unavailable", "offline"]


@dataclass(frozen=True, slots=True)
class TypingNow:
    """All who are typing in a room, sorted."""

    room_id: str
    user_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherFrom:
    """An EDU of a type that the specification does not have, and the server that sent it. Nothing of its
    content has been checked."""

    origin: str
    edu: Other


@dataclass(frozen=True, slots=True)
class DeviceMessage:
    """A message to a device of a user of this server; `*` stands for all of them. It is kept until it is
    forgotten."""

    position: int
    user_id: str
    device_id: str
    sender: str
    type: str
    content: Mapping[str, Any] = field(repr=False)


Ephemeral = TypingNow | Receipt | PresenceOfUser | DeviceListUpdate | SigningKeyUpdate | ToDevice | OtherFrom
"""Of a `ToDevice` the messages can be read when this is heard."""
Listener = Callable[[Ephemeral], None]
"""It returns at once."""


def edu_type(said: Ephemeral) -> str:
    """The type under which somebody listens for it."""
    match said:
        case TypingNow():
            return "m.typing"
        case Receipt():
            return "m.receipt"
        case PresenceOfUser():
            return "m.presence"
        case DeviceListUpdate():
            return "m.device_list_update"
        case ToDevice():
            return "m.direct_to_device"
        case SigningKeyUpdate():
            return "m.signing_key_update"
        case OtherFrom():
            return said.edu.edu_type
