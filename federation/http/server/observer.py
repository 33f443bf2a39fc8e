"""What the listener tells those who count and log. Every label it hands out comes from a small fixed set."""

# A peer can invent methods, a label can't.
METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH"})
OTHER_METHOD = "other"
# No route matched; and: what came was no HTTP, so that there was nothing to match.
UNMATCHED = "unmatched"
UNREADABLE = "unreadable"


class Observer:
    """Does nothing: metrics and logs derive from it. Its methods are called from the event loop and must
    return at once."""

    def connection_opened(self, kind: str) -> None:
        """`kind` is `tls` or `plain`; the handshake is over."""

    def connection_closed(self, kind: str) -> None: ...

    def connection_refused(self, reason: str) -> None:
        """Never let in; `reason` is a `federation.matrix.networks.Refusal`."""

    def handshake_failed(self, reason: str) -> None:
        """`reason` is a `federation.http.server.tls.HandshakeFailure`."""

    def connection_expired(self, phase: str) -> None:
        """A deadline passed; `phase` is the `federation.http.server.deadlines.Phase` in which it did."""

    def request_answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """`route` is a template such as `/_matrix/key/v2/server/{key_id}`, `unmatched` or `unreadable`."""

    def problem(self, sentence: str, error: BaseException | None) -> None:
        """Something the operator should read, `error` with its traceback where there is one."""
