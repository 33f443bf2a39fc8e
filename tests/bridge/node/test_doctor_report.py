"""What `palaver doctor` makes of its findings."""

from bridge.node.doctor import Verdict, as_json, fault, note, ok, outcome, summary


def test_the_worst_finding_is_the_outcome() -> None:
    """A note alone is no illness, one fault is."""
    assert outcome([]) is Verdict.OK
    assert outcome([ok("a", "fine"), note("b", "old", "renew it")]) is Verdict.NOTE
    assert outcome([fault("a", "broken", "mend it"), ok("b", "fine")]) is Verdict.FAULT


def test_the_summary_names_every_fault() -> None:
    """The last line is what people read."""
    assert summary([ok("a", "fine")]) == "This node is healthy."
    assert summary([fault("port", "x", "y"), ok("a", "z")]) == "One fault: port."
    assert summary([fault("port", "x", "y"), fault("disk", "x", "y")]) == "2 faults: port, disk."


def test_programs_get_words_not_numbers() -> None:
    """A verdict's number is nobody's business."""
    answer = as_json([fault("port", "taken", "choose another")])
    assert answer == {
        "healthy": False,
        "findings": [{"subject": "port", "verdict": "fault", "text": "taken", "advice": "choose another"}],
    }
