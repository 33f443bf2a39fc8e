"""What the application service reports to metrics and logs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appservice.intake.transaction import Transaction


class AppserviceObserver:
    """Does nothing; the observer for metrics and logs derives from it. The event loop calls its methods, so
    they must return immediately."""

    # -- requests to the homeserver --

    def request_finished(self, method: str, kind: str, outcome: str, seconds: float) -> None:
        """`kind` is from `request_kind`. `outcome` is `ok`, `refused`, `limited`, `away` or `cancelled`."""

    # -- availability --

    def unavailable(self, reason: str) -> None: ...

    def available(self, seconds: float) -> None: ...

    def unreachable(self, reason: str) -> None:
        """The homeserver is available, but cannot reach this node."""

    def reachable(self) -> None: ...

    def ping_received(self) -> None:
        """The homeserver has reached this node with a requested ping."""

    # -- received transactions --

    def transaction_received(self, transaction: "Transaction", *, is_new: bool, seconds: float) -> None:
        """A transaction is committed, or was already."""

    def problem(self, sentence: str, error: BaseException | None) -> None:
        """A problem that the operator should know about."""
