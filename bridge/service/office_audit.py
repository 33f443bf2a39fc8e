"""Writes into the audit what offices pass over in silence."""

from collections.abc import Callable
from typing import Final

from federation import audit
from federation.audit import Direction, Ending, Entry, Named
from federation.service.audit import AuditTrail

CANCEL: Final = "office_cancel"
_WHY: Final = "No call of this connection is under way by this number."


class OfficeAudit:
    def __init__(self, trail: AuditTrail, *, now_ms: Callable[[], int]) -> None:
        self._trail = trail
        self._now_ms = now_ms

    def ignored_cancel(self, owner: str, req_id: str) -> None:
        """ "A stranger's cancel is ignored and audited." `owner` is whose the token is."""
        named = Named(None, None, audit.cut(req_id))
        self._trail.note(
            Entry(self._now_ms(), audit.cut(owner), Direction.IN, CANCEL, Ending.REFUSED, named, _WHY)
        )
