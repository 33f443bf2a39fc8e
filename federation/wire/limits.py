"""How much one peer, and all of them together, may ask of the port. What is crossed ends in a clear error."""

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    # One line of a request's head: the request line, or one field. A backfill of many events has a long line.
    max_line: int = 16 * KIB
    max_fields: int = 100
    # The head as a whole.
    max_head: int = 32 * KIB
    # As Synapse: 200 events of 64 KiB. A full transaction has 50, and 100 EDUs.
    max_body: int = 200 * 64 * KIB
    # The bodies of all requests together that are neither in small pieces nor answered yet.
    max_bodies: int = 512 * KIB * KIB

    max_connections: int = 2000
    max_connections_per_address: int = 200
    # Connections beyond those that are kept a moment to be told why; more are closed without a word.
    max_farewells: int = 64

    # Whether it will be TLS or HTTP: the connection's first byte.
    first_byte_timeout: float = 10.0
    handshake_timeout: float = 10.0
    tls_shutdown_timeout: float = 3.0
    # The first byte of a request inside TLS, and a whole head from its first byte.
    head_timeout: float = 10.0
    body_timeout: float = 60.0
    # A body has to bring at least so much in every stretch of so many seconds.
    body_progress: int = KIB
    body_progress_timeout: float = 10.0
    idle_timeout: float = 75.0
    # A peer that stops reading its answer.
    stall_timeout: float = 60.0
    # After a last answer: what is still coming is read and dropped, or a reset would eat the answer.
    linger_timeout: float = 2.0
