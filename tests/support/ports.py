"""Ports that stay free while a server that is known by its port is down.

A homeserver called `localhost:PORT` comes back on that port or not at all. The kernel hands the ports of its
own range to whatever connects somewhere in the meantime, so ours are taken from below it.
"""

import random
import socket
from functools import cache

RANGE = range(20_000, 32_000)

_given: set[int] = set()


@cache
def loopback_addresses() -> tuple[str, ...]:
    """The addresses that `localhost` may mean on this machine."""
    found = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family) as probe:
                probe.bind((address, 0))
        except OSError:
            continue
        found.append(address)
    return tuple(found)


def lasting_port() -> int:
    """A port that nobody has, that the kernel gives nobody, and that this process never gave before."""
    # At random, because several workers and several runs choose at the same time.
    for port in random.sample(RANGE, 200):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise AssertionError(f"of 200 ports in {RANGE} none was free")


def _is_free(port: int) -> bool:
    for address in loopback_addresses():
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            # As servers do: a connection that is still winding down keeps no server from starting.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True
