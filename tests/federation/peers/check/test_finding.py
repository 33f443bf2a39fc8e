"""Findings of a peer check."""

from federation.peers.check.facts import Verdict, fault, fine, warning, worst


def test_the_worst_verdict_counts() -> None:
    """A fault is worse than a warning."""
    good, odd, bad = fine("a", "b"), warning("a", "b", "c"), fault("a", "b", "c")
    assert worst([]) is worst([good]) is Verdict.FINE
    assert worst([odd, good]) is Verdict.WARNING
    assert worst([odd, bad, good]) is Verdict.FAULT
