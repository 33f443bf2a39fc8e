"""Text of agents, of peers and of people, before it is shown to anybody.

Control characters go, and so does what changes the direction of others or is never seen: it would hide what
is said, or say something else. What joins and selects the forms of letters and emoji stays.
"""

import re
from typing import Final

# Sequences for terminals: ECMA-48, 5.4 (CSI), 5.6 (OSC and the like), and those of two bytes.
_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^_`a-~])"
)
_LINE_END: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# Control characters but for tab and line feed; marks, overrides and isolates of direction; what is invisible;
# halves of surrogate pairs; tags, which spell out text that nobody sees.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_BLANKS: Final = re.compile(r"\s+")


def cleaned(text: str) -> str:
    """In lines."""
    if text.isascii() and text.isprintable():
        return text  # nothing of what follows is in it
    return _UNSEEN.sub("", _LINE_END.sub("\n", _SEQUENCE.sub("", text)))


def one_line(text: str, most: int) -> str:
    """At most so many characters of it, in one line."""
    # What is cut off is not looked at: text may be long.
    line = _BLANKS.sub(" ", cleaned(text[: 4 * most])).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def beginning(text: str, most_lines: int, most_characters: int) -> str:
    """Whole lines of it, unless the first one is too long by itself."""
    lines: list[str] = []
    left = most_characters
    for line in text[: most_characters + 1].split("\n")[:most_lines]:
        if len(line) > left:
            if not lines:
                lines.append(line[:left])
            break
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)
