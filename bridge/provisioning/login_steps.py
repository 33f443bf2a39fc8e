"""How a person lets this node speak in the person's name: by giving it an access token, in one step."""

from typing import Any, Final

from cachetools import LRUCache

from federation.matrix.errors import MatrixError

FLOW: Final = "access_token"
STEP: Final = "io.palaver.access_token"
STEP_TYPE: Final = "user_input"
FIELD: Final = "access_token"
COMPLETE: Final = "io.palaver.complete"

MOST: Final = 1_000
"""Logins that have been begun, of all people."""
LASTS: Final = 900.0
"""Seconds. What is begun is known to this process alone, and who comes later begins again."""


def flows(*, takes_tokens: bool) -> list[dict[str, str]]:
    if not takes_tokens:
        return []
    return [
        {
            "id": FLOW,
            "name": "Access token",
            "description": "Let agents' work that is asked for in your name be your own messages.",
        }
    ]


def first_step(login_id: str) -> dict[str, Any]:
    return {
        "login_id": login_id,
        "type": STEP_TYPE,
        "step_id": STEP,
        "instructions": (
            "Log in to your homeserver once more, with any client or by its API, and give the access token of"
            " that session: not of one that you use yourself, since it ends when you log out there."
        ),
        STEP_TYPE: {
            "fields": [
                {
                    "type": "token",
                    "id": FIELD,
                    "name": "Access token",
                    "description": "It is kept encrypted, and shown to nobody but your homeserver.",
                }
            ]
        },
    }


def complete(process_id: str, login_id: str) -> dict[str, Any]:
    return {
        "login_id": process_id,
        "type": "complete",
        "step_id": COMPLETE,
        "instructions": "This node speaks in your name now, where somebody asks for work in your name.",
        "complete": {"user_login_id": login_id},
    }


class Begun:
    """Logins that have been begun. Times are seconds of a clock that never runs backwards."""

    def __init__(self) -> None:
        self._processes: LRUCache[str, tuple[str, float]] = LRUCache(MOST)

    def begin(self, process_id: str, person: str, flow: str, now: float, *, takes_tokens: bool) -> None:
        """Raises `MatrixError` where there is no such flow."""
        if flow != FLOW or not takes_tokens:
            raise MatrixError("M_NOT_FOUND", "There is no such login flow.", 404)
        # One at a time for each person: who begins again has given up the one before.
        for other in tuple(self._processes):
            found = self._processes.get(other)
            if found is not None and found[0] == person:
                self._processes.pop(other, None)
        self._processes[process_id] = (person, now + LASTS)

    def check(self, process_id: str, person: str, step_id: str, step_type: str, now: float) -> None:
        """Raises `MatrixError` unless the person is at this step of it."""
        found = self._processes.get(process_id)
        # That somebody else has begun it nobody is told.
        if found is None or found[0] != person or now >= found[1]:
            raise MatrixError("M_NOT_FOUND", "There is no such login: begin again.", 404)
        if step_id != STEP:
            raise MatrixError("M_BAD_STATE", "The login is not at that step.", 400)
        if step_type != STEP_TYPE:
            raise MatrixError("M_BAD_STATE", "The step is of another type.", 400)

    def end(self, process_id: str) -> None:
        self._processes.pop(process_id, None)


def token_in(fields: object) -> str:
    """Of what was filled in. Raises `MatrixError`."""
    token = fields.get(FIELD) if isinstance(fields, dict) else None
    if not isinstance(token, str) or not token.strip():
        raise MatrixError("M_BAD_JSON", f"The field {FIELD} is missing.")
    return token.strip()
