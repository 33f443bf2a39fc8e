"""Ports that stay free while a server that is known by its port is down.

A homeserver called `localhost:PORT` comes back on that port or not at all. The kernel hands the ports of its
own range to whatever connects somewhere in the meantime, so ours are taken from below it.

Several processes choose at the same time, and a port is chosen long before somebody listens on it. Who has
chosen one therefore holds an abstract Unix socket of its number: exclusive, and gone with the process.
"""

import random
import socket
from functools import cache

RANGE = range(20_000, 32_000)

_claims: dict[int, socket.socket] = {}


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
    """A port that nobody has, that the kernel gives nobody, and that no other test chose."""
    for port in random.sample(RANGE, 200):
        if _claim(port) and _is_free(port):
            return port
    raise AssertionError(f"of 200 ports in {RANGE} none was free")


def take(port: int) -> socket.socket:
    """Listen on a port as somebody else does, so that a node finds it taken."""
    other = socket.socket()
    # Connections of an earlier test that are still winding down keep nobody from taking it.
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind(("127.0.0.1", port))
    other.listen()
    return other


def _claim(port: int) -> bool:
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0palaver-test-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims[port] = claim
    return True


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
