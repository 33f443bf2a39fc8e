"""From what a program has sent to a message, or to a refusal that names the field."""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from bridge.agent_api.messages import Message
from bridge.terminal_text import harmless
from federation.errors import MatrixError

M = TypeVar("M", bound=Message)

_LONGEST = 200


def read_json(body: bytes | str) -> dict[str, Any]:
    """Raises `MatrixError`."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise MatrixError("M_NOT_JSON", "The message is not JSON.", 400) from None
    if not isinstance(value, dict):
        raise MatrixError("M_BAD_JSON", "The message is not a JSON object.", 400)
    return value


def read(model: type[M], value: Mapping[str, Any], *, is_text: bool = False) -> M:
    """Nothing is converted, but for text where everything is text: in an address. Raises `MatrixError`."""
    try:
        return model.model_validate(value, strict=not is_text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = harmless(".".join(map(str, first["loc"])), _LONGEST)
        what = harmless(first["msg"].removeprefix("Value error, "), _LONGEST)
        raise MatrixError(
            "M_BAD_JSON", f"{where or 'The message'}: {what}.", 400, fields={"field": where} if where else {}
        ) from None
