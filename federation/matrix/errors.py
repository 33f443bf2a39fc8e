"""Errors by fault: `MatrixError` of the requester, `PeerError` of another server. `storage.errors.LocalError`
is the third kind, a fault on this machine.

`federation/http/middleware.py` maps each of them to an HTTP response.
"""

from collections.abc import Mapping
from typing import Any


class MatrixError(Exception):
    """A request is refused: the standard error response of Matrix.

    `text` is sent to the requester, so it never contains a secret, a path of this machine or the version of a
    library. `fields` are further members of the response, such as `retry_after_ms`.
    """

    def __init__(self, errcode: str, text: str, status: int = 400, *, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{status} {errcode}: {text}")
        self.errcode = errcode
        self.text = text
        self.status = status
        self.fields: Mapping[str, Any] = fields or {}

    def body(self) -> dict[str, Any]:
        """The JSON body. `fields` cannot override `errcode` and `error`."""
        return {**self.fields, "errcode": self.errcode, "error": self.text}


class PeerError(Exception):
    """A request to another server failed: the server violated the specification, or did not respond.

    `rule` is the number of the violated paragraph, if there is one.
    """

    def __init__(self, peer: str, problem: str, rule: str | None = None) -> None:
        super().__init__(f"{peer}: {problem}" + (f" (rule {rule})" if rule else ""))
        self.peer = peer
        self.problem = problem
        self.rule = rule


def limit_exceeded(text: str, status: int, retry_after_ms: int) -> MatrixError:
    """The error that says when the request may be repeated."""
    return MatrixError("M_LIMIT_EXCEEDED", text, status, fields={"retry_after_ms": retry_after_ms})
