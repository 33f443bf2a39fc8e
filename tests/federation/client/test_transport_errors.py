"""Converting exceptions of aiohttp and the system. `test_client` causes most of them."""

import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from federation.client.dns import AddressBlocked
from federation.client.errors import PeerMalformed, PeerTimedOut, PeerTlsFailure, PeerUnreachable, peer_error
from federation.matrix.errors import PeerError

KEY = ConnectionKey("a.test", 1, True, True, None, None, None)


def caused_by(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "problem"),
    [
        (aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(111, "('127.0.0.1', 1)")), PeerUnreachable,
         "could not be reached: connection refused"),
        (aiohttp.ClientConnectorError(KEY, OSError(113, "failed ('10.0.0.1', 1)")), PeerUnreachable,
         "could not be reached: no route to host"),
        (aiohttp.ClientConnectorError(KEY, OSError("Multiple exceptions: …")), PeerUnreachable,
         "could not be reached: no response"),
        (aiohttp.ClientConnectorDNSError(KEY, OSError("no")), PeerUnreachable, "could not be resolved"),
        (caused_by(aiohttp.ClientConnectorDNSError(KEY, OSError()), AddressBlocked()), PeerUnreachable,
         "not to connect to"),
        (aiohttp.ConnectionTimeoutError(), PeerTimedOut, "took too long"),
        (TimeoutError(), PeerTimedOut, "took too long"),
        (aiohttp.ServerDisconnectedError(), PeerUnreachable, "closed the connection"),
        (ConnectionResetError(), PeerUnreachable, "closed the connection"),
        (aiohttp.ClientPayloadError(), PeerUnreachable, "closed the connection"),
        (caused_by(aiohttp.ClientOSError(), ssl.SSLError(1, "[SSL: X]")), PeerTlsFailure, "TLS handshake"),
        (aiohttp.InvalidURL("x"), PeerMalformed, "could not be read"),
    ],
)  # fmt: skip
def test_every_failure_has_its_class_and_text(error: Exception, kind: type[PeerError], problem: str) -> None:
    """Without an address, a port or a library's name: it may be shown to others."""
    made = peer_error("a.test", error)
    assert type(made) is kind
    assert problem in made.problem
    assert "127.0.0.1" not in made.problem
    assert "10.0.0.1" not in made.problem
