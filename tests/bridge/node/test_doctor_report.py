"""The report of `palaver doctor`."""

from bridge.node.doctor import Verdict, as_json, fault, note, ok, outcome, summary


def test_worst_finding_is_the_outcome() -> None:
    """Notes are healthy, a fault is not."""
    assert outcome([]) is Verdict.OK
    assert outcome([ok("a", "fine"), note("b", "old", "renew it")]) is Verdict.NOTE
    assert outcome([fault("a", "broken", "mend it"), ok("b", "fine")]) is Verdict.FAULT


def test_summary_names_every_fault() -> None:
    """In the last line."""
    assert summary([ok("a", "fine")]) == "This node is healthy."
    assert summary([fault("port", "x", "y"), ok("a", "z")]) == "One fault: port."
    assert summary([fault("port", "x", "y"), fault("disk", "x", "y")]) == "2 faults: port, disk."


def test_json_has_verdict_names() -> None:
    """Not numbers."""
    answer = as_json([fault("port", "taken", "choose another")])
    assert answer == {
        "healthy": False,
        "findings": [{"subject": "port", "verdict": "fault", "text": "taken", "advice": "choose another"}],
    }
