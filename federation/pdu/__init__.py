"""Events: their form, their hashes and signatures, what redaction leaves of them, and how ours are built."""

from federation.pdu.builder import CannotBuild, Signer, Template, build
from federation.pdu.format import Malformed, Oversized, Parsed, parse, read, room_id_of
from federation.pdu.pdu import EventId, Pdu, StateKey, create_event_id, redacted, view

__all__ = [
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
    "read",
    "redacted",
    "room_id_of",
    "view",
]
