"""Holds servers to their limits: whoever asks too much is told when to come back."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from federation.acts import Kind
from federation.admission import Address, read_address
from federation.errors import MatrixError, limit_exceeded
from federation.peer_limits import Excess, PeerLimiter, PeerLimits


class PeerGate:
    """Each refusal is a `MatrixError`: 429 M_LIMIT_EXCEEDED with `retry_after_ms`."""

    def __init__(
        self, limits: PeerLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limiter = PeerLimiter(PeerLimits() if limits is None else limits)
        self._clock = clock

    def admit(self, server: str, kind: Kind) -> None:
        """A request that the server has signed."""
        _refuse(self._limiter.ask(server, kind, self._clock()), "Your server asks too much at once.")

    def admit_unsigned(self, remote: str | None) -> None:
        """A request that nobody has to sign. `remote` is the address it comes from."""
        address = _address(remote)
        if address is not None:
            excess = self._limiter.ask_unsigned(address, self._clock())
            _refuse(excess, "Your address asks too much at once.")

    @contextmanager
    def trial(self, remote: str | None) -> Iterator[None]:
        """What is done in here finds out whether a request was signed by whom it names. When it fails with a
        `MatrixError` that counts against the address that it came from."""
        address = _address(remote)
        if address is None:
            yield
            return
        excess = self._limiter.begin_trial(address, self._clock())
        _refuse(excess, "Too many requests from your address were not signed by whom they named.")
        try:
            yield
        except MatrixError:
            raise
        except BaseException:
            # Not the sender's fault.
            self._limiter.passed(address)
            raise
        self._limiter.passed(address)


def _address(remote: str | None) -> Address | None:
    """None when the connection is gone, or has no address, as a Unix socket."""
    if not remote:
        return None
    try:
        return read_address(remote)
    except ValueError:
        return None


def _refuse(excess: Excess | None, sentence: str) -> None:
    if excess is not None:
        raise limit_exceeded(f"{sentence} Try again later.", 429, excess.retry_after_ms)
