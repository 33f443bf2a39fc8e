"""EDUs: what servers tell each other beside the history of rooms. Server-server API, "EDUs"."""

from federation.edu.making import Outgoing
from federation.edu.reading import Malformed, read, within_acls
from federation.edu.values import (
    DeviceListUpdate,
    Edu,
    Other,
    Presence,
    PresenceOfUser,
    Receipt,
    Receipts,
    SigningKeyUpdate,
    ToDevice,
    Typing,
)

__all__ = [
    "DeviceListUpdate",
    "Edu",
    "Malformed",
    "Other",
    "Outgoing",
    "Presence",
    "PresenceOfUser",
    "Receipt",
    "Receipts",
    "SigningKeyUpdate",
    "ToDevice",
    "Typing",
    "read",
    "within_acls",
]
