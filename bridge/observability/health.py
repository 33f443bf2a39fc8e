"""Whether the node is ready: what each part last said of itself."""

from federation.http.services import Readiness

NOT_YET = "It has not started yet."
HOMESERVER = "homeserver"
"""Of a node that is the guest of one."""


class Health:
    """Each part reports here when something changes; the endpoint only reads."""

    def __init__(self) -> None:
        self._checks: dict[str, str | None] = dict.fromkeys(("database", "migrations", "listeners"), NOT_YET)

    def expect(self, check: str) -> None:
        """One more, which not every node has."""
        self._checks[check] = NOT_YET

    def set(self, check: str, sentence: str | None) -> None:
        """`sentence` says what is wrong, None that nothing is."""
        assert check in self._checks, f"{check} is none of the checks"
        self._checks[check] = sentence

    def get(self, check: str) -> str | None:
        return self._checks[check]

    def readiness(self) -> Readiness:
        return Readiness(dict(self._checks))
