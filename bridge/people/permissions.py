"""Who may look, give work, or administer.

"Permissions map: `'*'`, domain, `@mxid`; the most specific wins", and a refusal says which rule decided, so
that whoever is refused can tell whoever may change it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from federation.matrix.identifiers import domain, is_server_name, is_user_id

EVERYBODY: Final = "*"


class Level(StrEnum):
    NONE = "none"
    LOOK = "look"
    """Be in the rooms, and ask what there is."""
    WORK = "work"
    """Give agents work, and take it back."""
    ADMINISTER = "administer"
    """Take back the work of others."""

    def includes(self, other: "Level") -> bool:
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER: Final = (Level.NONE, Level.LOOK, Level.WORK, Level.ADMINISTER)
_WHAT: Final[Mapping[Level, str]] = {
    Level.NONE: "nothing",
    Level.LOOK: "looking at agents",
    Level.WORK: "giving work to agents",
    Level.ADMINISTER: "deciding about the work of others",
}
DEFAULT: Final[Mapping[str, Level]] = MappingProxyType({EVERYBODY: Level.LOOK})


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule` is the key of the rule that decided; None when there is none for this user."""

    user: str
    level: Level
    rule: str | None

    def refusal(self, needed: Level) -> str | None:
        """Why the user may not do what takes this level: a sentence for the user. None if he may."""
        if self.level.includes(needed):
            return None
        return f'{_WHAT[needed].capitalize()} takes the permission "{needed}": {self._because()}'

    def _because(self) -> str:
        if self.rule is None:
            return f"no rule of [permissions] is for {self.user}."
        return f'for {self.user} the rule "{self.rule}" = "{self.level}" of [permissions] decides.'


@dataclass(frozen=True, slots=True)
class Rights:
    """`sensitive` are users and servers that may use sensitive commands, beyond the level that those take:
    "sensitive operations need an additional authorisation"."""

    levels: Mapping[str, Level] = field(default_factory=lambda: DEFAULT)
    sensitive: Collection[str] = ()

    def of(self, user: str) -> Verdict:
        """The most specific rule wins: the user's own, that of the server, that for everybody."""
        for rule in _names(user):
            if rule in self.levels:
                return Verdict(user, self.levels[rule], rule)
        return Verdict(user, Level.NONE, None)

    def sensitive_refusal(self, user: str) -> str | None:
        """Why the user may not use a sensitive command, whatever his level."""
        if any(name in self.sensitive for name in _names(user)):
            return None
        return (
            f"That is sensitive, and takes a second permission: `sensitive` of [people] does not name {user}."
        )


def wrong_rule(key: str) -> str | None:
    """Why this is no key of a rule; None if it is one."""
    if key == EVERYBODY or is_user_id(key) or is_server_name(key):
        return None
    return "is neither *, nor a server name, nor a user id such as @alice:example.org"


def _names(user: str) -> tuple[str, ...]:
    """By which rules may mean a user, the most specific first."""
    return user, domain(user) or "", EVERYBODY
