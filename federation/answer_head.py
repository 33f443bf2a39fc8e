"""The head of an HTTP answer as nearly every server writes it: RFC 9112, sections 4 to 6.

Only what is beyond doubt is read: a final answer of HTTP/1.1 that names the length of its body once. Whatever
is written in another way is left to a whole implementation of HTTP, so that nothing hostile is to be guessed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MOST: Final = 16 * 1024
"""Bytes of a head."""
END: Final = b"\r\n\r\n"

# No line is folded, none has blanks before its colon or holds anything that steers. Each of the classes ends
# where the next begins, so that nothing is looked at twice.
_HEAD: Final = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*"
)
_SAYS_MORE: Final = re.compile(
    rb"^(content-length|transfer-encoding|content-encoding|connection|retry-after):([^\r]*)",
    re.IGNORECASE | re.MULTILINE,
)
_LENGTH: Final = re.compile(r"[0-9]{1,12}")
# "any response with a 1xx (Informational), 204 (No Content), or 304 (Not Modified) status code is always
# terminated by the first empty line after the header fields", whatever it says of a length.
_WITHOUT_BODY: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """`stays`: the connection may be asked on it again."""

    status: int
    length: int
    stays: bool
    headers: Mapping[str, str]
    """In lower case, of those that mean something here."""


def read_head(head: bytes) -> AnswerHead | None:
    """A head without the empty line that ends it, but with the end of its last line. None where it is
    unusual: without a length, in chunks, compressed, of another version."""
    matched = _HEAD.fullmatch(head)
    if matched is None:
        return None
    status = int(matched[1])
    headers: dict[str, str] = {}
    for name, value in _SAYS_MORE.findall(head):
        named = name.decode("ascii").lower()
        if named in headers:
            # "If a message is received without Transfer-Encoding and with … an invalid Content-Length header
            # field, then the message framing is invalid".
            return None
        headers[named] = value.decode("latin-1").strip(" \t")
    length = headers.get("content-length", "")
    if (
        status in _WITHOUT_BODY
        or "transfer-encoding" in headers
        or headers.get("content-encoding", "identity").lower() != "identity"
        or _LENGTH.fullmatch(length) is None
    ):
        return None
    stays = headers.get("connection", "keep-alive").lower() == "keep-alive"
    return AnswerHead(status, int(length), stays, headers)
