"""Whether words could call somebody who is in the room.

A message with `m.mentions` calls those whom that lists, and nobody else. One without calls whoever is named
in it, by the older rules: "contains_display_name" and "contains_user_name", each by whole words, whatever
their case, and "@room". So where nobody is named, an empty list says nothing; and a Synapse takes about a
twentieth of all that it does for a message to look whether the list has the right form.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from federation.identifiers import localpart
from federation.room_event import Member

MOST_MEMBERS: Final = 200
LONGEST_BODY: Final = 4_000
"""Of more it is not worth looking."""
_MENTIONS: Final = "m.mentions"
_REPLACES: Final = "m.new_content"
_ALL: Final = "@room"
# Where one of these is in a name, a homeserver may take it for a pattern.
_PATTERN: Final = frozenset("*?")


def names_of(members: Collection[Member]) -> frozenset[str] | None:
    """As they would be found in a text; None where that is not to be known."""
    if len(members) > MOST_MEMBERS:
        return None
    names = {_ALL}
    for member in members:
        local = localpart(member.user_id) or ""
        shown = member.displayname or ""
        if not _PATTERN.isdisjoint(f"{local}{shown}"):
            return None
        names |= {local.casefold(), shown.casefold()}
    return frozenset(names - {""})


def calls_nobody(content: Mapping[str, Any]) -> bool:
    """Whether it lists nobody, and is short enough to be looked at."""
    body = content.get("body")
    return (
        content.get(_MENTIONS) == {}
        and _REPLACES not in content
        and isinstance(body, str)
        and len(body) <= LONGEST_BODY
    )


def without_list(content: Mapping[str, Any], names: Iterable[str] | None) -> Mapping[str, Any]:
    """What calls nobody without saying so, if none of these is in it."""
    if names is None or not calls_nobody(content):
        return content
    said = content["body"].casefold()
    if any(name in said for name in names):
        return content
    return {key: value for key, value in content.items() if key != _MENTIONS}
