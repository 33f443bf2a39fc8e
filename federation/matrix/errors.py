"""Whose fault it is. `storage.errors.LocalError` is the third kind: something on this machine.

How each of them is answered over HTTP is decided in one place, `federation/http/middleware.py`.
"""

from collections.abc import Mapping
from typing import Any


class MatrixError(Exception):
    """The asker is refused, and told so: Matrix's standard error.

    `text` reaches whoever asked, so it never holds a secret, a path of this machine or a library's version.
    `fields` are further members of the answer's JSON, such as `retry_after_ms`.
    """

    def __init__(
        self, errcode: str, text: str, status: int = 400, *, fields: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{status} {errcode}: {text}")
        self.errcode = errcode
        self.text = text
        self.status = status
        self.fields: Mapping[str, Any] = fields or {}

    def body(self) -> dict[str, Any]:
        """The JSON that says it. `fields` cannot take the place of the two names that every error has."""
        return {**self.fields, "errcode": self.errcode, "error": self.text}


class PeerError(Exception):
    """Another server did something wrong: it answered against the specification, or not at all.

    `rule` is the number of the paragraph it broke, where one can be named.
    """

    def __init__(self, peer: str, problem: str, rule: str | None = None) -> None:
        super().__init__(f"{peer}: {problem}" + (f" (rule {rule})" if rule else ""))
        self.peer = peer
        self.problem = problem
        self.rule = rule


def limit_exceeded(text: str, status: int, retry_after_ms: int) -> MatrixError:
    """The one refusal that says when to come back."""
    return MatrixError("M_LIMIT_EXCEEDED", text, status, fields={"retry_after_ms": retry_after_ms})
