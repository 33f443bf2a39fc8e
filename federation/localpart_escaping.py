"""Any text as part of a localpart, and back.

Specification, appendix "Mapping from other character sets": what Matrix does not allow in the localpart of a
new user, `=` itself among it, is `=` and two hexadecimal digits for each byte of UTF-8. That mapping writes
capitals with `_`; here they are escaped like the rest, so that there is one rule.
"""

import re
from typing import Final

# user_id_char = DIGIT / a-z / "-" / "." / "=" / "_" / "/" / "+"
_ESCAPED: Final = re.compile(rb"[^a-z0-9._/+-]")
_LOCALPART: Final = re.compile(r"(?:[a-z0-9._/+-]|=[0-9a-f]{2})+", re.ASCII)
_ESCAPE: Final = re.compile(rb"=([0-9a-f]{2})")


def escape(text: str) -> str:
    """The text can be written in UTF-8."""
    return _ESCAPED.sub(lambda found: b"=%02x" % found[0][0], text.encode()).decode()


def unescape(name: str) -> str | None:
    """None for what `escape` does not write: otherwise two names would stand for one text."""
    if _LOCALPART.fullmatch(name) is None:
        return None
    try:
        text = _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), name.encode()).decode()
    except UnicodeDecodeError:
        return None
    return text if escape(text) == name else None
