"""People's permissions.

"Permissions map: `'*'`, domain, `@mxid`; the most specific wins". A refusal names the rule that applied, so
that a person can report it to the administrator.
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
    """Join the agents' rooms, and list agents and tasks."""
    WORK = "work"
    """Give tasks to agents, and cancel one's own tasks."""
    ADMINISTER = "administer"
    """Cancel the tasks of others."""

    def includes(self, other: "Level") -> bool:
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER: Final = (Level.NONE, Level.LOOK, Level.WORK, Level.ADMINISTER)
_WHAT: Final[Mapping[Level, str]] = {
    Level.NONE: "do this",
    Level.LOOK: "see agents",
    Level.WORK: "give tasks to agents",
    Level.ADMINISTER: "decide about the tasks of others",
}
DEFAULT: Final[Mapping[str, Level]] = MappingProxyType({EVERYBODY: Level.LOOK})


@dataclass(frozen=True, slots=True)
class Permission:
    """A user's permission. `rule` is the key of the rule that applied, or None if no rule matches the
    user."""

    user: str
    level: Level
    rule: str | None

    def refusal(self, needed: Level) -> str | None:
        """Return a message that explains why the user lacks the level `needed`, or None if the user has
        it."""
        if self.level.includes(needed):
            return None
        return f'You need the permission "{needed}" to {_WHAT[needed]}: {self._reason()}'

    def _reason(self) -> str:
        if self.rule is None:
            return f"no rule of [permissions] matches {self.user}."
        return f'for {self.user} the rule "{self.rule}" = "{self.level}" of [permissions] applies.'


@dataclass(frozen=True, slots=True)
class Rights:
    """The configured permissions. `sensitive` are users and servers that may use sensitive commands if they
    also have the command's level: "sensitive operations need an additional authorisation"."""

    levels: Mapping[str, Level] = field(default_factory=lambda: DEFAULT)
    sensitive: Collection[str] = ()

    def of(self, user: str) -> Permission:
        """Return the permission by the most specific rule: of the user, of the server, or for everybody."""
        for rule in _names(user):
            if rule in self.levels:
                return Permission(user, self.levels[rule], rule)
        return Permission(user, Level.NONE, None)

    def sensitive_refusal(self, user: str) -> str | None:
        """Return a message that explains why the user may not use sensitive commands, or None."""
        if any(name in self.sensitive for name in _names(user)):
            return None
        return (
            f"This command is sensitive and needs a second permission: {user} is not listed in `sensitive` of [people]."
        )


def rule_error(key: str) -> str | None:
    """Return why `key` is not a valid key of a rule, or None if it is valid."""
    if key == EVERYBODY or is_user_id(key) or is_server_name(key):
        return None
    return "is not *, a server name or a user id such as @alice:example.org"


def _names(user: str) -> tuple[str, ...]:
    """The keys of rules that match a user, the most specific first."""
    return user, domain(user) or "", EVERYBODY
