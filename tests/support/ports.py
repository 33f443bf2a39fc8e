"""Ports that stay free while the server that uses them is down.

A homeserver named `localhost:PORT` must restart on the same port. The kernel assigns ports of its ephemeral
range to other connections in the meantime, so the tests use ports below that range.

Several processes choose ports at the same time, long before they listen on them. A process that has chosen
one holds an abstract Unix socket with its number, which is exclusive and is released when the process ends.
"""

import random
import socket
from functools import cache

RANGE = range(20_000, 32_000)

_claims: dict[int, socket.socket] = {}


@cache
def loopback_addresses() -> tuple[str, ...]:
    """Return the addresses that `localhost` may mean on this machine."""
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
    """Return a free port that the kernel assigns to no other socket, and that no other test has chosen."""
    for port in random.sample(RANGE, 200):
        if _claim(port) and _is_free(port):
            return port
    raise AssertionError(f"of 200 ports in {RANGE} none was free")


def take(port: int) -> socket.socket:
    """Listen on a port, so that a node finds it in use."""
    other = socket.socket()
    # Connections of an earlier test that are still closing do not block the port.
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
