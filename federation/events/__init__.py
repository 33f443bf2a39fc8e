"""Events: their form, their hashes and signatures, what redaction leaves of them, and how ours are built."""

from federation.events.builder import CannotBuild, Signer, Template, build
from federation.events.format import Malformed, Oversized, Parsed, parse, room_id_of
from federation.events.pdu import CREATE, Pdu, StateKey, create_event_id, redacted, view
from federation.matrix.identifiers import EventId

__all__ = [
    "CREATE",
    "CannotBuild",
    "EventId",
    "Malformed",
    "Oversized",
    "Parsed",
    "Pdu",
    "Signer",
    "StateKey",
    "Template",
    "build",
    "create_event_id",
    "parse",
    "redacted",
    "room_id_of",
    "view",
]
