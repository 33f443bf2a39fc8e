"""Holds servers to their limits: whoever asks too much is told when to come back."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Final

from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.networks import Address, read_address
from federation.peers.acts import Kind
from federation.peers.limits import Excess, PeerLimiter, PeerLimits

MOST_ADDRESSES: Final = 4_000
"""Of which it is remembered whether they are limited. Reading one costs more than all else here."""

_FREE: Final = nullcontext()


class _Trial:
    """One request of which it is not known yet whether it was signed by whom it names."""

    __slots__ = ("_address", "_limiter")

    def __init__(self, limiter: PeerLimiter, address: Address) -> None:
        self._limiter = limiter
        self._address = address

    def __enter__(self) -> None:
        """It counts already."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # What is not the sender's fault does not count.
        if not isinstance(error, MatrixError):
            self._limiter.passed(self._address)


class PeerGate:
    """Each refusal is a `MatrixError`: 429 M_LIMIT_EXCEEDED with `retry_after_ms`."""

    def __init__(
        self, limits: PeerLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limiter = PeerLimiter(PeerLimits() if limits is None else limits)
        self._clock = clock
        self._limited = lru_cache(MOST_ADDRESSES)(self._limited_address)

    def admit(self, server: str, kind: Kind) -> None:
        """A request that the server has signed."""
        _refuse(self._limiter.ask(server, kind, self._clock()), "Your server asks too much at once.")

    def admit_unsigned(self, remote: str | None) -> None:
        """A request that nobody has to sign. `remote` is the address it comes from."""
        address = self._limited(remote)
        if address is not None:
            excess = self._limiter.ask_unsigned(address, self._clock())
            _refuse(excess, "Your address asks too much at once.")

    def trial(self, remote: str | None) -> AbstractContextManager[None]:
        """What is done in here finds out whether a request was signed by whom it names. When it fails with a
        `MatrixError` that counts against the address that it came from."""
        address = self._limited(remote)
        if address is None:
            return _FREE
        excess = self._limiter.begin_trial(address, self._clock())
        _refuse(excess, "Too many requests from your address were not signed by whom they named.")
        return _Trial(self._limiter, address)

    def _limited_address(self, remote: str | None) -> Address | None:
        """None when many servers may stand behind it, when the connection is gone, or when it has no address,
        as a Unix socket."""
        if not remote:
            return None
        try:
            address = read_address(remote)
        except ValueError:
            return None
        return None if self._limiter.is_shared(address) else address


def _refuse(excess: Excess | None, sentence: str) -> None:
    if excess is not None:
        raise limit_exceeded(f"{sentence} Try again later.", 429, excess.retry_after_ms)
