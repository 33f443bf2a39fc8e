"""What the appservice side reports to metrics and logs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appservice.intake.transaction import Transaction


class AppserviceObserver:
    """Does nothing: metrics and logs derive from it. Its methods are called from the event loop and must
    return at once."""

    # -- requests to the homeserver --

    def asked(self, method: str, kind: str, outcome: str, seconds: float) -> None:
        """`kind` is as `request_kind` has it. `outcome` is `ok`, `refused`, `limited`, `away` or
        `cancelled`."""

    # -- whether it is there --

    def away(self, wrong: str) -> None: ...

    def back(self, seconds: float) -> None: ...

    def unreached(self, wrong: str) -> None:
        """It is there, and does not reach this node."""

    def reached(self) -> None: ...

    def pinged(self) -> None:
        """It has reached this node, asked to do so."""

    # -- what it sends --

    def taken_in(self, transaction: "Transaction", *, is_new: bool, seconds: float) -> None:
        """A transaction of the homeserver has been committed, or had been before."""

    def problem(self, sentence: str, error: BaseException | None) -> None:
        """Something the operator should read."""
