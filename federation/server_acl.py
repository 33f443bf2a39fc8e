"""Server ACLs: which servers may take part in a room. Client-server API, `m.room.server_acl`.

They act where requests come in and transactions are taken apart, not in the authorisation rules.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from federation.identifiers import parse_server_name


class Glob:
    """A pattern with `*` for any characters and `?` for one; case does not matter (v1.19, MSC4436).

    Between two stars there is only ever one thing to do: find the next piece as early as possible. So
    matching takes time in proportion to what is matched, and no pattern can be made to take longer, as it
    can with a regular expression of many stars.
    """

    __slots__ = ("_first", "_last", "_last_length", "_middle")

    def __init__(self, pattern: str) -> None:
        first, *rest = re.split(r"\*+", pattern.lower())
        self._first = _piece(first)
        self._middle = [_piece(piece) for piece in rest[:-1]]
        self._last = _piece(rest[-1]) if rest else None
        self._last_length = len(rest[-1]) if rest else 0

    def matches(self, text: str) -> bool:
        text = text.lower()
        start = self._first.match(text)
        if start is None:
            return False
        if self._last is None:
            return start.end() == len(text)
        position = start.end()
        for piece in self._middle:
            found = piece.search(text, position)
            if found is None:
                return False
            position = found.end()
        # The last piece must end the text. Having no stars, it is as long as what it matches.
        end = len(text) - self._last_length
        return end >= position and self._last.match(text, end) is not None


def _piece(text: str) -> re.Pattern[str]:
    """A piece without stars, which matches exactly as many characters as it has."""
    return re.compile(
        "".join("." if character == "?" else re.escape(character) for character in text), re.DOTALL
    )


@dataclass(frozen=True)
class ServerAcl:
    """What a room's `m.room.server_acl` says."""

    allow: tuple[str, ...]
    deny: tuple[str, ...]
    allow_ip_literals: bool

    @cached_property
    def _allowed(self) -> tuple[Glob, ...]:
        return tuple(map(Glob, self.allow))

    @cached_property
    def _denied(self) -> tuple[Glob, ...]:
        return tuple(map(Glob, self.deny))

    def allows(self, server_name: str) -> bool:
        """Whether the server may take part. What is no server name may not."""
        # "When comparing against the server ACLs, the suspect server's port number must not be considered."
        server = parse_server_name(server_name)
        if server is None:
            return False
        # 2. If the server name is an IP address (v4 or v6) literal, and `allow_ip_literals` is present and
        #    `false`,    deny.
        if server.is_ip_literal and not self.allow_ip_literals:
            return False
        # 3. If the server name matches an entry in the `deny` list, deny.
        if any(glob.matches(server.host) for glob in self._denied):
            return False
        # 4. If the server name matches an entry in the `allow` list, allow.
        # 5. Otherwise, deny.
        return any(glob.matches(server.host) for glob in self._allowed)


NO_ACL: Final = ServerAcl(allow=("*",), deny=(), allow_ip_literals=True)
"""1. If there is no `m.room.server_acl` event in the room state, allow."""


def server_acl(content: Mapping[str, Any] | None) -> ServerAcl:
    """Read the content of the room's `m.room.server_acl`; None if it has none.

    "This defaults to an empty list when not provided": an ACL without `allow` denies everybody.
    """
    if content is None:
        return NO_ACL
    return ServerAcl(
        allow=_patterns(content.get("allow")),
        deny=_patterns(content.get("deny")),
        # "Defaults to `true` if missing or otherwise not a boolean."
        allow_ip_literals=content.get("allow_ip_literals") is not False,
    )


def _patterns(entries: object) -> tuple[str, ...]:
    return tuple(entry for entry in entries if isinstance(entry, str)) if isinstance(entries, list) else ()
