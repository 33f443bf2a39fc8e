"""The headers that media is served with, to servers and to browsers alike."""

from typing import Final

from federation.content_disposition import content_disposition

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
