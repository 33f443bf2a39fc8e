"""The headers with which media is served, and the `Location` of media of other servers.

Server-server API, "Content Repository": a part "with a Location header […] the location may be used to
retrieve the media", as from a CDN. The peer chooses the address, so it must not lead into this node's
network.
"""

from typing import Final

from yarl import URL

from federation.media.file_name import content_disposition

SAFETY: Final = {
    # Browsers must use the declared type and not guess it from the bytes.
    "X-Content-Type-Options": "nosniff",
    # As the client-server API recommends in "Security considerations", but without plug-ins.
    "Content-Security-Policy": "sandbox; default-src 'none'; script-src 'none'; style-src 'unsafe-inline';"
    " media-src 'self'; object-src 'none'",
    # Web clients are served from other sites than the homeserver.
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Referrer-Policy": "no-referrer",
}


def media_headers(content_type: str, file_name: str | None) -> dict[str, str]:
    """Return the headers that describe media, in a response or in a multipart part."""
    return {"Content-Type": content_type, "Content-Disposition": content_disposition(content_type, file_name)}


_MAX_LENGTH: Final = 8 * 1024


def read_location(text: str) -> URL | None:
    """Parse an absolute `https` URL with a host name; None for anything else.

    IP addresses are refused: they would not be resolved and so bypass the check of resolved addresses.
    127.1 and 0x7f000001 are addresses too; they end in a digit, as no host name does.
    """
    if len(text) > _MAX_LENGTH or not text.isascii() or not text.isprintable():
        return None
    try:
        url = URL(text, encoded=True)
        host = url.raw_host or ""
        fits = url.scheme == "https" and url.port is not None and url.raw_user is None
    except ValueError:
        return None
    last = host.rstrip(".").rpartition(".")[2]
    if not fits or url.raw_password is not None or not last or ":" in host or "[" in host:
        return None
    return None if last[0].isdigit() else url
