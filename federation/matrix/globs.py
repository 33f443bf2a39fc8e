"""Patterns of names. `fnmatch` makes atomic groups of what stands between stars: no pattern takes long."""

import re
from fnmatch import translate
from typing import Final

STAR: Final = "*"


class Glob:
    """A pattern of server names, as ACLs and the configuration write them: `*` for any characters and `?` for
    one; case does not matter (v1.19, MSC4436)."""

    __slots__ = ("_pattern",)

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(translate(pattern.lower().replace("[", "[[]")))

    def matches(self, text: str) -> bool:
        return self._pattern.match(text.lower()) is not None


def matches_glob(pattern: str, text: str) -> bool:
    """Of names that are free text: `*` stands for any characters, every other one for itself, and case
    matters."""
    return re.match(translate(re.sub(r"[?[]", r"[\g<0>]", pattern)), text) is not None
