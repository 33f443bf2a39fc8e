"""Enforces rate limits on requests of other servers, with 429 M_LIMIT_EXCEEDED."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Final

from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.networks import Address, read_address
from federation.peers.actions import RequestKind
from federation.peers.limits import PeerLimiter, PeerLimits, RateExceeded

MAX_CACHED_ADDRESSES: Final = 4_000
"""Addresses for which it is cached whether they are limited. Parsing an address is the most expensive
step."""

_UNLIMITED: Final = nullcontext()


class _Authentication:
    """A request that is being authenticated. It counts as a failure from the beginning."""

    __slots__ = ("_address", "_limiter")

    def __init__(self, limiter: PeerLimiter, address: Address) -> None:
        self._limiter = limiter
        self._address = address

    def __enter__(self) -> None:
        """The request has been counted already."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # A failure that is not the sender's fault does not count.
        if not isinstance(error, MatrixError):
            self._limiter.authentication_succeeded(self._address)


class RequestLimiter:
    """Checks requests against the rate limits. Raises `MatrixError` 429 M_LIMIT_EXCEEDED with
    `retry_after_ms`."""

    def __init__(self, limits: PeerLimits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limiter = PeerLimiter(PeerLimits() if limits is None else limits)
        self._clock = clock
        self._limited = lru_cache(MAX_CACHED_ADDRESSES)(self._limited_address)

    def check(self, server: str, kind: RequestKind) -> None:
        """Check an authenticated request."""
        _raise_if_exceeded(self._limiter.take(server, kind, self._clock()), "Your server sends too many requests.")

    def check_unsigned(self, remote: str | None) -> None:
        """Check a request that needs no signature. `remote` is the address that it comes from."""
        address = self._limited(remote)
        if address is not None:
            excess = self._limiter.take_unsigned(address, self._clock())
            _raise_if_exceeded(excess, "Your address sends too many requests.")

    def authenticating(self, remote: str | None) -> AbstractContextManager[None]:
        """The context in which a request is authenticated. If it raises a `MatrixError`, that counts as a
        failure of the address that the request comes from."""
        address = self._limited(remote)
        if address is None:
            return _UNLIMITED
        excess = self._limiter.begin_authentication(address, self._clock())
        _raise_if_exceeded(excess, "Too many requests from your address failed authentication.")
        return _Authentication(self._limiter, address)

    def _limited_address(self, remote: str | None) -> Address | None:
        """The address if it is limited. None if many servers may share it, if the connection has ended, or if
        it has no address, like a Unix socket."""
        if not remote:
            return None
        try:
            address = read_address(remote)
        except ValueError:
            return None
        return None if self._limiter.is_shared(address) else address


def _raise_if_exceeded(excess: RateExceeded | None, sentence: str) -> None:
    if excess is not None:
        raise limit_exceeded(f"{sentence} Try again later.", 429, excess.retry_after_ms)
