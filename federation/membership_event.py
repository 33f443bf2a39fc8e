"""The membership event that another server hands in: the checks of `send_join`, `send_leave`, `send_knock`.

It comes from a server that need not be in the room, so nothing of it is taken for granted. Signatures, the
content hash and the authorisation rules are looked at afterwards, as for every event.
"""

from collections.abc import Mapping
from typing import Any

from federation.errors import MatrixError
from federation.identifiers import domain
from federation.membership_template import AUTHORISER
from federation.pdu import Pdu, parse
from federation.pdu.hashes import content_hash_holds
from federation.room_version import RoomVersion


def handed_in(
    body: object, version: RoomVersion, *, room_id: str, event_id: str, origin: str, membership: str
) -> Pdu:
    """The event, or MatrixError.

    "The receiving server MUST apply certain validation before accepting the event. A specific error code is
    not mandated, but servers SHOULD return M_INVALID_PARAM if:" one of these does not hold.
    """
    pdu = parse(body, version)
    if not isinstance(pdu, Pdu):
        raise MatrixError("M_BAD_JSON", f"This is not an event: {pdu.problem}.", 400)
    if pdu.room_id != room_id:
        raise invalid("The event is of another room than the path says.")
    if pdu.event_id != event_id:
        raise invalid("The event has another id than the path says.")
    # "The event type is not m.room.member. The membership field inside the event content is not join."
    if pdu.type != "m.room.member" or pdu.membership != membership:
        raise invalid(f"The event is not an m.room.member event with membership {membership}.")
    # "The state_key is not equal to the sender."
    if pdu.state_key != pdu.sender:
        raise invalid("The state_key of the event is not its sender.")
    # "The event sender is not a user ID on the origin server."
    if domain(pdu.sender) != origin:
        raise invalid("The event is of another server's user.")
    # An event whose content was changed on the way would be kept redacted, which is no use to anybody here.
    if not content_hash_holds(pdu.event, version):
        raise invalid("The content hash of the event does not hold.")
    return pdu


def invalid(text: str) -> MatrixError:
    return MatrixError("M_INVALID_PARAM", text, 400)


def authoriser_of(pdu: Pdu, version: RoomVersion) -> str | None:
    """The user who vouches for a restricted join, if one is named."""
    if not version.restricted_joins or pdu.membership != "join" or AUTHORISER not in pdu.content:
        return None
    authoriser = pdu.content[AUTHORISER]
    if not isinstance(authoriser, str) or domain(authoriser) is None:
        raise invalid(f"{AUTHORISER} is not a user id.")
    return authoriser


def with_signatures_of(
    pdu: Pdu, returned: Mapping[str, Any], server: str, version: RoomVersion
) -> Pdu | None:
    """Our event with the signatures that `server` has put on it; None when what came back is not our event
    or they are not there.

    Only signatures are taken over, and only that server's: everything else stays as we made it.
    """
    made = returned.get("signatures")
    theirs = made.get(server) if isinstance(made, dict) else None
    if not isinstance(theirs, dict) or not theirs:
        return None
    merged = {**pdu.event, "signatures": {**pdu.signatures, server: theirs}}
    same = parse(returned, version)
    ours = parse(merged, version)
    if not isinstance(same, Pdu) or not isinstance(ours, Pdu) or same.event_id != pdu.event_id:
        return None
    return ours
