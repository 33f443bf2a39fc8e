"""Events: format, hashes, signatures, redaction, and building local events."""

from federation.events.builder import BuildFailure, Signer, Template, build
from federation.events.format import Malformed, Oversized, ParseResult, parse, room_id_of
from federation.events.pdu import CREATE, Pdu, StateKey, create_event_id, make_pdu, redact_pdu
from federation.matrix.identifiers import EventId

__all__ = [
    "CREATE",
    "BuildFailure",
    "EventId",
    "Malformed",
    "Oversized",
    "ParseResult",
    "Pdu",
    "Signer",
    "StateKey",
    "Template",
    "build",
    "create_event_id",
    "make_pdu",
    "parse",
    "redact_pdu",
    "room_id_of",
]
