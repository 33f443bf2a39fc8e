"""Glob patterns. `fnmatch` translates the parts between stars into atomic groups, so that no pattern is
slow."""

import re
from fnmatch import translate
from typing import Final

STAR: Final = "*"


class Glob:
    """A pattern of server names in ACLs and the configuration: `*` matches any characters, `?` one character.
    Case-insensitive (v1.19, MSC4436)."""

    __slots__ = ("_pattern",)

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(translate(pattern.lower().replace("[", "[[]")))

    def matches(self, text: str) -> bool:
        return self._pattern.match(text.lower()) is not None


def matches_glob(pattern: str, text: str) -> bool:
    """For names that are free text: `*` matches any characters, every other character itself.
    Case-sensitive."""
    return re.match(translate(re.sub(r"[?[]", r"[\g<0>]", pattern)), text) is not None
