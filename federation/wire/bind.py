"""The port: all its addresses bound before any is served, or a sentence that says why not."""

import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from storage.errors import LocalError

BACKLOG = 1024
# Port 0 lets the system pick for the first address; the others may find that port taken.
PICKS = 32
# What a machine without IPv6, or with IPv6 switched off, says to `::1`.
ABSENT = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})


@dataclass(frozen=True, slots=True)
class Bind:
    """An IP address to listen on. `optional`: passed over where this machine does not have it.

    Addresses that a person wrote down are not optional; defaults such as `::1` are.
    """

    host: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class BoundAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bind(binds: Sequence[Bind], port: int) -> list[socket.socket]:
    """Listening sockets, the same port on every address. Who connects waits until they are served."""
    for _ in range(PICKS if port == 0 else 1):
        try:
            return _bind_all(binds, port)
        except _PickAgain:
            continue
    raise LocalError(
        f"No port was found that is free on all of {', '.join(one.host for one in binds)}.",
        "Name a port that is.",
    )


def bound_address(listening: socket.socket) -> BoundAddress:
    host, port = listening.getsockname()[:2]
    return BoundAddress(host, port)


class _PickAgain(Exception):
    pass


def _bind_all(binds: Sequence[Bind], port: int) -> list[socket.socket]:
    bound: list[socket.socket] = []
    picked = port
    try:
        for one in binds:
            try:
                listening = _bind_one(one.host, picked)
            except OSError as error:
                if one.optional and error.errno in ABSENT:
                    continue
                if error.errno == errno.EADDRINUSE and port == 0 and bound:
                    raise _PickAgain from error
                raise _explain(error, one.host, picked) from error
            bound.append(listening)
            picked = bound_address(listening).port
    except BaseException:
        for listening in bound:
            listening.close()
        raise
    if not bound:
        raise LocalError(
            "None of the addresses to listen on exists on this machine.",
            "Name one that does, such as 127.0.0.1.",
        )
    return bound


def _bind_one(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = _resolve(host, port)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setblocking(False)
        # A restart must not wait for the connections of the process before it to be forgotten.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # `::` and `0.0.0.0` are bound side by side; and an IPv4 peer keeps its IPv4 address.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        # With SO_REUSEADDR, Linux says only here that somebody else listens already.
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _resolve(
    host: str, port: int
) -> tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]:
    try:
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise LocalError(
            f"“{host}” is not an IP address to listen on.",
            "Write an address such as 127.0.0.1, ::1, 0.0.0.0 or ::, without brackets.",
        ) from None


def _explain(error: OSError, host: str, port: int) -> LocalError:
    if error.errno == errno.EADDRINUSE:
        return LocalError(
            f"Port {port} on {host} is taken by another program, perhaps another Palaver or a CIS node.",
            f"Stop it (`ss -ltnp 'sport = :{port}'` names it), or set another port in the configuration.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return LocalError(
            f"This user may not listen on port {port} of {host}.",
            "Set a port of 1024 or higher in the configuration, or give the program CAP_NET_BIND_SERVICE.",
        )
    if error.errno in ABSENT:
        return LocalError(
            f"This machine has no address {host}.",
            "Set one that it has (`ip address` lists them), or 0.0.0.0 and :: for all of them.",
        )
    return LocalError(
        f"Port {port} on {host} could not be opened: {error.strerror}.",
        "Set another address or port in the configuration.",
    )
