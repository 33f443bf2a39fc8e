"""Whether the signatures of events hold, with whatever keys that takes."""

from collections.abc import Iterable

from federation.key_needs import KeyNeed, is_known_algorithm, needs_of
from federation.pdu import Pdu
from federation.pdu.event_signatures import verify_event
from federation.pdu.hashes import signed_bytes
from federation.room_version import RoomVersion
from federation.service.room_ports import Keys
from federation.signatures import Verified, verify


async def all_signed(keys: Keys, pdus: Iterable[Pdu], version: RoomVersion, now_ms: int) -> bool:
    """Whether each of the events has the signatures that it needs."""
    events = list(pdus)
    known = await keys.keys_for(set().union(*(needs_of(pdu, version) for pdu in events)))
    return all(isinstance(verify_event(pdu, version, known, now_ms), Verified) for pdu in events)


async def signed_by(keys: Keys, pdu: Pdu, version: RoomVersion, server: str, now_ms: int) -> bool:
    """Whether a server has signed the event, whether it needs that or not."""
    key_ids = [key_id for key_id in pdu.signatures.get(server, {}) if is_known_algorithm(key_id)]
    known = await keys.keys_for([KeyNeed(server, key_id) for key_id in key_ids])
    result = verify(
        signed_bytes(pdu.event, version), pdu.signatures, server, known.get(server, {}), now_ms=now_ms
    )
    return isinstance(result, Verified)
