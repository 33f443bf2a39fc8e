"""Reading an EDU of a transaction, and what the ACLs of rooms leave of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from federation.edu.devices import read_device_list_update, read_signing_key_update, read_to_device
from federation.edu.ephemeral import read_presence, read_receipts, read_typing
from federation.edu.fields import Unreadable
from federation.edu.values import Edu, Other, Receipts, Typing
from federation.identifiers import fits
from federation.server_acl import ServerAcl


@dataclass(frozen=True, slots=True)
class Malformed:
    """Not an EDU of its type, or one that its sender may not send. It is ignored: the transaction goes on."""

    edu_type: str
    problem: str


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], str], Edu]]] = {
    "m.typing": read_typing,
    "m.receipt": read_receipts,
    "m.presence": read_presence,
    "m.device_list_update": read_device_list_update,
    "m.direct_to_device": read_to_device,
    "m.signing_key_update": read_signing_key_update,
}


def read(edu: object, origin: str) -> Edu | Malformed:
    """`{"edu_type", "content"}` from the server `origin`. A type that nobody knows is an `Other`: somebody
    may know it, and whoever does not ignores it."""
    if not isinstance(edu, dict):
        return Malformed("", "an EDU is an object")
    edu_type, content = edu.get("edu_type"), edu.get("content")
    if not isinstance(edu_type, str) or not fits(edu_type) or not isinstance(content, dict):
        return Malformed("", "an EDU has an edu_type and a content")
    reader = _READERS.get(edu_type)
    if reader is None:
        return Other(edu_type, content)
    try:
        return reader(content, origin)
    except Unreadable as why:
        return Malformed(edu_type, str(why))


def rooms_of(edu: Edu) -> frozenset[str]:
    """The rooms whose ACL has a word in it."""
    if isinstance(edu, Typing):
        return frozenset((edu.room_id,))
    if isinstance(edu, Receipts):
        return frozenset(receipt.room_id for receipt in edu.receipts)
    return frozenset()


def within_acls(edu: Edu, origin: str, acls: Mapping[str, ServerAcl]) -> Edu | None:
    """What is left of the EDU when the ACLs of its rooms have been asked; None when nothing is.

    `acls` holds the ACL of every room in `rooms_of` that this server is in: what is said of other rooms is of
    no interest here.

    Server-server API, "Server Access Control Lists": "For typing notifications (m.typing), the room_id field
    inside content should be checked, with the typing notification ignored if the origin of the request is
    denied access to the room. Ignoring the typing notification in this scenario MUST NOT affect other EDUs
    being sent in the transaction. For read receipts (m.receipt), all receipts inside a room should be ignored
    if the origin of the request is denied access to that room."
    """
    allowed = {room_id for room_id in rooms_of(edu) if room_id in acls and acls[room_id].allows(origin)}
    if isinstance(edu, Typing):
        return edu if edu.room_id in allowed else None
    if isinstance(edu, Receipts):
        left = tuple(receipt for receipt in edu.receipts if receipt.room_id in allowed)
        return replace(edu, receipts=left) if left else None
    return edu
