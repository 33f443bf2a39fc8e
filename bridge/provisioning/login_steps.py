"""The login flow: a person gives the node an access token, in one step."""

from typing import Any, Final

from cachetools import LRUCache

from federation.matrix.errors import MatrixError

FLOW: Final = "access_token"
STEP: Final = "io.palaver.access_token"
STEP_TYPE: Final = "user_input"
FIELD: Final = "access_token"
COMPLETE: Final = "io.palaver.complete"

MAX_LOGINS: Final = 1_000
"""Concurrent logins of all people."""
LOGIN_TTL: Final = 900.0
"""Seconds. A started login is known to this process only; an expired one has to be started again."""


def flows(*, accepts_tokens: bool) -> list[dict[str, str]]:
    if not accepts_tokens:
        return []
    return [
        {
            "id": FLOW,
            "name": "Access token",
            "description": "Let requests to agents in your name be sent as your own messages.",
        }
    ]


def first_step(login_id: str) -> dict[str, Any]:
    return {
        "login_id": login_id,
        "type": STEP_TYPE,
        "step_id": STEP,
        "instructions": (
            "Log in to your homeserver again, with any client or its API, and enter the access token of"
            " that session. Do not use a session of your own: its token ends when you log out there."
        ),
        STEP_TYPE: {
            "fields": [
                {
                    "type": "token",
                    "id": FIELD,
                    "name": "Access token",
                    "description": "It is stored encrypted, and sent only to your homeserver.",
                }
            ]
        },
    }


def complete(process_id: str, login_id: str) -> dict[str, Any]:
    return {
        "login_id": process_id,
        "type": "complete",
        "step_id": COMPLETE,
        "instructions": "Requests to agents in your name are sent as your own messages from now on.",
        "complete": {"user_login_id": login_id},
    }


class LoginProcesses:
    """Logins in progress. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._processes: LRUCache[str, tuple[str, float]] = LRUCache(MAX_LOGINS)

    def begin(self, process_id: str, person: str, flow: str, now: float, *, accepts_tokens: bool) -> None:
        """Raises `MatrixError` if there is no such flow."""
        if flow != FLOW or not accepts_tokens:
            raise MatrixError("M_NOT_FOUND", "There is no such login flow.", 404)
        # One login per person: a new one replaces the previous one.
        for other in tuple(self._processes):
            found = self._processes.get(other)
            if found is not None and found[0] == person:
                self._processes.pop(other, None)
        self._processes[process_id] = (person, now + LOGIN_TTL)

    def check(self, process_id: str, person: str, step_id: str, step_type: str, now: float) -> None:
        """Raises `MatrixError` unless the person is at this step of the login."""
        found = self._processes.get(process_id)
        # A login of another person is not revealed.
        if found is None or found[0] != person or now >= found[1]:
            raise MatrixError("M_NOT_FOUND", "There is no such login: start again.", 404)
        if step_id != STEP:
            raise MatrixError("M_BAD_STATE", "The login is not at that step.", 400)
        if step_type != STEP_TYPE:
            raise MatrixError("M_BAD_STATE", "The step has another type.", 400)

    def end(self, process_id: str) -> None:
        self._processes.pop(process_id, None)


def token_in(fields: object) -> str:
    """The token in the submitted fields. Raises `MatrixError`."""
    token = fields.get(FIELD) if isinstance(fields, dict) else None
    if not isinstance(token, str) or not token.strip():
        raise MatrixError("M_BAD_JSON", f"The field {FIELD} is missing.")
    return token.strip()
