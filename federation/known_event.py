"""An event together with what this server made of it."""

from dataclasses import dataclass
from typing import Literal

from federation.pdu import Pdu
from federation.receipt import ACCEPTED, Accepted, Rejected, SoftFailed, Verdict

VerdictName = Literal["accepted", "soft_failed", "rejected"]


@dataclass(frozen=True, slots=True)
class KnownEvent:
    pdu: Pdu
    verdict: VerdictName
    refusal: str | None = None
    state_before: int | None = None
    """The number of the state before it; None for an outlier, of which nobody knows where it stands."""
    state_after: int | None = None

    @property
    def is_outlier(self) -> bool:
        return self.state_before is None

    @property
    def receipt(self) -> Verdict:
        """The verdict as it was when the event came."""
        if self.verdict == "accepted":
            return ACCEPTED
        rule, _, text = (self.refusal or "").partition(": ")
        return SoftFailed(rule, text) if self.verdict == "soft_failed" else Rejected(rule, text)


def known(
    pdu: Pdu, verdict: Verdict, state_before: int | None = None, state_after: int | None = None
) -> KnownEvent:
    match verdict:
        case Accepted():
            return KnownEvent(pdu, "accepted", None, state_before, state_after)
        case SoftFailed(rule, text):
            return KnownEvent(pdu, "soft_failed", f"{rule}: {text}", state_before, state_after)
        case Rejected(rule, text):
            return KnownEvent(pdu, "rejected", f"{rule}: {text}", state_before, state_after)
