"""What nodes of agents did to each other, as a row of the audit.

The words of the audit are few, so that they can be searched for: a verdict for which there is none is told in
the detail. Never what was said: no prompt, no answer, no report.
"""

from collections.abc import Mapping
from typing import Final

from bridge.connectors.cis.acts import Act, Verdict
from federation.peers import audit
from federation.peers.audit import EVERYBODY, Direction, Ending, Entry, Named

UNREADABLE: Final = "io.cis"
"""What was done, where nobody can say what it was to be."""

_ENDINGS: Final[Mapping[Verdict, Ending]] = {
    Verdict.TAKEN: Ending.DONE,
    Verdict.KEPT: Ending.DONE,
    Verdict.REPEATED: Ending.DONE,
    Verdict.INVALID: Ending.REFUSED,
    Verdict.FORBIDDEN: Ending.REFUSED,
    Verdict.TOO_LARGE: Ending.REFUSED,
    Verdict.TOO_FAST: Ending.RATE_LIMITED,
    Verdict.UNAVAILABLE: Ending.FAILED,
    Verdict.SENT: Ending.DONE,
    Verdict.FAILED: Ending.FAILED,
}
# What is told instead of an act's own detail; the same words make the same row, with a number.
_DETAILS: Final[Mapping[Verdict, str]] = {
    Verdict.KEPT: "kept, and not acted on",
    Verdict.REPEATED: "said before",
    Verdict.TOO_FAST: "too much at once",
    Verdict.UNAVAILABLE: "could not be kept",
}


def entry_of(act: Act, now_ms: int) -> Entry:
    """Whatever a peer has written into it fits into the row."""
    ending = _ENDINGS[act.verdict]
    peer = act.peer
    if peer is None and act.is_ours:
        peer = EVERYBODY
    if peer is None and ending is Ending.REFUSED:
        ending = Ending.UNAUTHENTICATED
    return Entry(
        now_ms,
        audit.cut(peer),
        Direction.OUT if act.is_ours else Direction.IN,
        audit.cut(act.type) or UNREADABLE,
        ending,
        Named(audit.cut(act.user), audit.cut(act.room_id), audit.cut(act.subject)),
        audit.cut_detail(_DETAILS.get(act.verdict, act.detail)),
    )
