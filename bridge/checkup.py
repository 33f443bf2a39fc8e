"""What `palaver doctor` finds: each examination ends in one finding, the worst of them is the outcome."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Verdict(IntEnum):
    """From healthy to ill; the order is what makes one of them the worst."""

    OK = 0
    NOTE = 1
    FAULT = 2


@dataclass(frozen=True)
class Finding:
    """What one examination found, and for a fault what to do about it."""

    subject: str
    verdict: Verdict
    text: str
    advice: str = ""


def ok(subject: str, text: str) -> Finding:
    return Finding(subject, Verdict.OK, text)


def note(subject: str, text: str, advice: str) -> Finding:
    """Fine for now, but whoever runs the node should know."""
    return Finding(subject, Verdict.NOTE, text, advice)


def fault(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject, Verdict.FAULT, text, advice)


def outcome(findings: Sequence[Finding]) -> Verdict:
    return max((finding.verdict for finding in findings), default=Verdict.OK)


def summary(findings: Sequence[Finding]) -> str:
    """The last line of the report."""
    faults = [finding.subject for finding in findings if finding.verdict is Verdict.FAULT]
    if not faults:
        return "This node is healthy."
    return f"{'One fault' if len(faults) == 1 else f'{len(faults)} faults'}: {', '.join(faults)}."


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "healthy": outcome(findings) is not Verdict.FAULT,
        "findings": [{**vars(finding), "verdict": finding.verdict.name.lower()} for finding in findings],
    }
