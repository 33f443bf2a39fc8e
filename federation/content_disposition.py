"""The header `Content-Disposition`, RFC 6266: written for our media, read from that of others."""

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from federation.file_name import safe_file_name
from federation.media_type import is_inline

_LONGEST: Final = 16 * 1024
# The parameters: a name, and behind it a token or a quoted string. RFC 9110, 5.6.
_PARAMETER: Final = re.compile(
    r";[ \t]*(?P<name>[0-9A-Za-z_-]{1,32}\*?)[ \t]*=[ \t]*"
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^;"]*))',
    re.ASCII | re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def content_disposition(content_type: str, file_name: str | None) -> str:
    """Inline only where nothing in the media can run; the name in ASCII for old readers, whole for others."""
    kind = "inline" if is_inline(content_type) else "attachment"
    name = safe_file_name(file_name)
    if name is None:
        return kind
    if name.isascii():
        return f'{kind}; filename="{_plain(name)}"'
    # RFC 8187. Readers take this one when they know it.
    return f"{kind}; filename=\"{_plain(name)}\"; filename*=utf-8''{quote(name, safe='')}"


def file_name_in(header: str | None) -> str | None:
    """The name in a header as it came: in bytes that were read as Latin-1. It is made safe by nobody yet."""
    if header is None or len(header) > _LONGEST:
        return None
    found: dict[str, str] = {}
    for match in _PARAMETER.finditer(header):
        value = (
            _ESCAPED.sub(r"\1", match["quoted"]) if match["quoted"] is not None else match["plain"].strip()
        )
        found.setdefault(match["name"].lower(), value)
    extended = _extended(found["filename*"]) if "filename*" in found else None
    return extended or _as_utf_8(found.get("filename", "")) or None


def _plain(name: str) -> str:
    """`safe_file_name` has taken out what ends a quoted string; a backslash there is a separator."""
    return "".join(one if one.isascii() else "_" for one in name)


def _extended(value: str) -> str | None:
    charset, _, rest = value.partition("'")
    _language, quote_mark, encoded = rest.partition("'")
    if charset.lower() != "utf-8" or not quote_mark:
        return None
    try:
        return unquote_to_bytes(encoded).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _as_utf_8(text: str) -> str:
    """Many servers write UTF-8 as it is, which no specification allows and everybody understands."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text
