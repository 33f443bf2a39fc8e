"""Whether the node is ready: the latest result of each check."""

from federation.http.services import Readiness

NOT_YET = "It has not started yet."
HOMESERVER = "homeserver"
"""The check of a node that is attached to a homeserver."""


class Health:
    """Parts of the node report changes here; the endpoint only reads."""

    def __init__(self) -> None:
        self._checks: dict[str, str | None] = dict.fromkeys(("database", "migrations", "listeners"), NOT_YET)

    def expect(self, check: str) -> None:
        """Add a check that not every node has."""
        self._checks[check] = NOT_YET

    def set(self, check: str, sentence: str | None) -> None:
        """`sentence` describes the problem; None means that the check passes."""
        assert check in self._checks, f"{check} is not a check"
        self._checks[check] = sentence

    def get(self, check: str) -> str | None:
        return self._checks[check]

    def readiness(self) -> Readiness:
        return Readiness(dict(self._checks))
