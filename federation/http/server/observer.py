"""What the listener reports to metrics and logs. All labels come from small fixed sets."""

# Peers can invent methods, which must not become labels.
METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH"})
OTHER_METHOD = "other"
# The labels for a request that matched no route, and for one that was not valid HTTP.
UNMATCHED = "unmatched"
UNREADABLE = "unreadable"


class Observer:
    """Does nothing; metrics and logs derive from it. Its methods are called from the event loop and must
    not block."""

    def connection_opened(self, kind: str) -> None:
        """`kind` is `tls` or `plain`; the handshake has finished."""

    def connection_closed(self, kind: str) -> None: ...

    def connection_refused(self, reason: str) -> None:
        """The connection was refused; `reason` is a `federation.matrix.networks.Refusal`."""

    def handshake_failed(self, reason: str) -> None:
        """`reason` is a `federation.http.server.tls.HandshakeFailure`."""

    def connection_expired(self, phase: str) -> None:
        """A deadline passed in this `federation.http.server.deadlines.Phase`."""

    def request_answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """`route` is a template such as `/_matrix/key/v2/server/{key_id}`, `unmatched` or `unreadable`."""

    def problem(self, sentence: str, error: BaseException | None) -> None:
        """Report a problem to the operator, with the exception if there is one."""
