"""After how much silence an agent counts as gone.

"after 120 s the agent is offline". But silence that nobody listened to is no reproach: a node that was away
itself gives everybody the whole time again, from its return on.
"""

from dataclasses import dataclass

MISSED = 4
"""Heartbeats that fit into the time after which an agent is gone: 120 s are four periods of 30 s. (The
specification's appendix says two, against its own numbers.)"""


@dataclass(frozen=True, slots=True)
class Listening:
    """From when to when some process of this node has been there to hear heartbeats, without a break in which
    more than one could have been missed."""

    since: int
    until: int


def listening(before: Listening | None, now_ms: int, timeout_ms: int) -> Listening:
    """A process listens now."""
    if before is None or not before.until - timeout_ms <= now_ms <= before.until + timeout_ms // MISSED:
        return Listening(now_ms, now_ms)  # there was a break, or the clock was put back
    return Listening(before.since, max(before.until, now_ms))


def cutoff(heard: Listening, now_ms: int, timeout_ms: int) -> int | None:
    """Whoever was heard from last before this is gone. None: nobody can be said to be silent yet."""
    return now_ms - timeout_ms if now_ms - heard.since >= timeout_ms else None


def next_look(heard: Listening, longest_silent: int | None, now_ms: int, timeout_ms: int) -> int:
    """When somebody may be gone next. It is often enough to go on listening without a break."""
    at_the_latest = now_ms + timeout_ms // (2 * MISSED)
    if longest_silent is None:
        return at_the_latest
    gone_at = max(longest_silent, heard.since) + timeout_ms + 1
    return min(max(gone_at, now_ms), at_the_latest)
