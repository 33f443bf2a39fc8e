"""What an examination of another server ends in."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    FINE = "fine"
    WARNING = "warning"
    """It works, or may; whoever runs the server should know."""
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """`text` says what was found, `advice` what to do about it where something is to be done."""

    subject: str
    verdict: Verdict
    text: str
    advice: str = ""


def fine(subject: str, text: str) -> Finding:
    return Finding(subject, Verdict.FINE, text)


def warning(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject, Verdict.WARNING, text, advice)


def fault(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject, Verdict.FAULT, text, advice)


_ORDER: Final = (Verdict.FINE, Verdict.WARNING, Verdict.FAULT)


def worst(findings: Iterable[Finding]) -> Verdict:
    return max((finding.verdict for finding in findings), key=_ORDER.index, default=Verdict.FINE)
