"""One connection to one address, made only to see what becomes of it."""

import asyncio
import contextlib
import ssl
from typing import Final

from federation.peer_check.certificate import read_certificate
from federation.peer_check.facts import Handshake, Place
from federation.service.transport_errors import reason

PATIENCE: Final = 10.0
"""Seconds for a connection, and as many for the handshake on it."""


async def unreachable(place: Place) -> str | None:
    """Why there is no connection; None if there is one."""
    try:
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(place.address, place.candidate.port)
    except TimeoutError:
        return "nobody answers there"
    except OSError as error:
        return reason(error)
    await _hang_up(writer)
    return None


async def shake_hands(place: Place, name: str, context: ssl.SSLContext) -> tuple[Handshake, bytes | None]:
    """With the certificate that was shown, if the handshake succeeded."""
    try:
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(
                place.address, place.candidate.port, ssl=context, server_hostname=name
            )
    except ssl.SSLCertVerificationError as error:
        return Handshake(code=error.verify_code, problem=error.verify_message), None
    except ssl.SSLError as error:
        problem = (error.reason or "it broke off the handshake").lower().replace("_", " ")
        return Handshake(problem=problem), None
    except TimeoutError:
        return Handshake(problem="it did not answer the handshake"), None
    except OSError:
        return Handshake(problem="it broke off the handshake"), None
    try:
        tls = writer.get_extra_info("ssl_object")
        der = tls.getpeercert(binary_form=True)
        return Handshake(tls.version(), certificate=read_certificate(der) if der else None), der
    finally:
        await _hang_up(writer)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """At once: some servers do not answer a polite farewell."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def trusting() -> ssl.SSLContext:
    """To look at a certificate that is not believed. Nothing is said on such a connection."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def pinning(der: bytes) -> ssl.SSLContext:
    """Believes this one certificate, as long as it is valid and for the right name."""
    context = ssl.create_default_context(cadata=der)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    return context
