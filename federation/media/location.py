"""The headers that media is served with, to servers and to browsers alike.

Where another server's media may really be: the `Location` that stands in place of the bytes.

Server-server API, "Content Repository": a part "with a Location header […] the location may be used to
retrieve the media", as from a CDN. The address is the peer's word, so that it must lead to nothing of ours.
"""

from typing import Final

from yarl import URL

from federation.media.file_name import content_disposition

SAFETY: Final = {
    # "X-Content-Type-Options: nosniff": the type is what is said here, whatever the bytes look like.
    "X-Content-Type-Options": "nosniff",
    # Client-server API, "Security considerations": what the specification recommends, without plug-ins.
    "Content-Security-Policy": "sandbox; default-src 'none'; script-src 'none'; style-src 'unsafe-inline';"
    " media-src 'self'; object-src 'none'",
    # Web clients live on other sites than homeservers.
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Referrer-Policy": "no-referrer",
}


def media_headers(content_type: str, file_name: str | None) -> dict[str, str]:
    """What describes the bytes: of an answer, or of the part that holds them."""
    return {
        "Content-Type": content_type,
        "Content-Disposition": content_disposition(content_type, file_name),
    }


_LONGEST: Final = 8 * 1024


def read_location(text: str) -> URL | None:
    """An absolute `https` address of a host that has a name; None for all else.

    A CDN has a name. An address in its place would not be looked up, and so would pass by the check of where
    a name leads; 127.1 and 0x7f000001 are addresses too, and end in a digit as no name does.
    """
    if len(text) > _LONGEST or not text.isascii() or not text.isprintable():
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
