"""What media may be served as: whoever opens it in a browser shall see it, and nothing in it shall run."""

import re
from typing import Final

from federation.image_header import image_type

UNKNOWN: Final = "application/octet-stream"

# Client-server API, "Serving inline content", without text/css: a style sheet acts on the page that loads it.
# SVG and HTML are missing on purpose, they hold scripts.
_IMAGES: Final = frozenset({"image/jpeg", "image/gif", "image/png", "image/apng", "image/webp", "image/avif"})
INLINE: Final = _IMAGES | {
    "text/plain", "text/csv", "application/json", "application/ld+json",
    "video/mp4", "video/webm", "video/ogg", "video/quicktime",
    "audio/mp4", "audio/webm", "audio/aac", "audio/mpeg", "audio/ogg", "audio/wave", "audio/wav",
    "audio/x-wav", "audio/x-pn-wav", "audio/flac", "audio/x-flac",
}  # fmt: skip

# RFC 9110, 5.6.2 and 8.3.1. RFC 6838, 4.2 allows no name longer than 127 characters.
_TYPE: Final = re.compile(
    r"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}/[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127})[ \t]*(?:;|\Z)", re.ASCII
)
# Of all parameters the only one that is kept. Any other charset is a way to hide what a text says.
_UTF_8: Final = re.compile(r";[ \t]*charset=\"?utf-8\"?[ \t]*(?:;|\Z)", re.ASCII | re.IGNORECASE)
_LONGEST: Final = 1024


def media_type(declared: str | None) -> str:
    """The type that somebody gave: in lower case, without parameters; `UNKNOWN` if it is none."""
    match = _TYPE.match(declared[:_LONGEST]) if declared else None
    return match[1].lower() if match else UNKNOWN


def believed_type(declared: str | None, head: bytes) -> str:
    """What these bytes are kept and served as.

    What is called a picture and is one gets the type that its bytes show; what is called a picture and is
    none is nothing that anybody should look at.
    """
    kind = media_type(declared)
    if kind in _IMAGES:
        found = image_type(head)
        if found is None:
            return UNKNOWN
        return kind if (kind, found) == ("image/apng", "image/png") else found
    if kind.startswith("text/") and declared is not None and _UTF_8.search(declared[:_LONGEST]):
        return f"{kind}; charset=utf-8"
    return kind


def is_inline(content_type: str) -> bool:
    """Whether a browser may show it by itself instead of saving it."""
    return media_type(content_type) in INLINE
