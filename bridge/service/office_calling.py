"""`palaver offices call`: a stream that ends with what came of the call. Whoever goes away before takes it
back."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from bridge.address import AgentAddress
from bridge.connectors.offices.call_command import NoOrder, read_object
from bridge.connectors.offices.direct_call import DEFAULT_SECONDS
from bridge.connectors.offices.office_name import NoOffice, office_name
from bridge.connectors.offices.relay import LONGEST_CALL
from bridge.connectors.offices.service.direct_calls import DirectCalls
from bridge.connectors.offices.tool_result import Outcome, whole_text
from bridge.people.in_name_of import OPERATOR
from bridge.service.control_stream import Items, Stream
from bridge.service.operator.arguments import Arguments
from storage.errors import LocalError

LONGEST: Final = 1_048_576
"""Characters of the parameters. A frame of the transport has less, and a Computer says so itself."""

CallsOf = Callable[[], DirectCalls | None]
"""None where no offices are served."""


def streams(calls_of: CallsOf, node_id: str) -> Mapping[str, Stream]:
    """By the names that the control socket knows them by."""
    return {"offices-call": partial(call, calls_of, node_id)}


async def call(calls_of: CallsOf, node_id: str, given: Mapping[str, Any]) -> Items:
    """One object: what came of it. Everything that can be refused before is."""
    calls = calls_of()
    if calls is None:
        raise LocalError(
            "This node serves no offices.", "Set `enabled = true` in [offices], and start it again."
        )
    arguments = Arguments(given)
    params = read_object(arguments.optional_text("params", LONGEST) or "{}")
    if isinstance(params, NoOrder):
        raise LocalError(params.sentence, 'Write an object of JSON, like {"a": 1}.')
    said, computer, tool_name = (arguments.text(name) for name in ("office", "computer", "tool"))
    office = office_name(said, (node_id,))
    office_id = said if isinstance(office, NoOffice) else office.office_id
    seconds = arguments.number("timeout", DEFAULT_SECONDS, LONGEST_CALL)
    by = str(AgentAddress(OPERATOR, node_id))
    return _call(calls, by, office_id, computer, tool_name, params, seconds)


async def _call(
    calls: DirectCalls,
    by: str,
    office_id: str,
    computer: str,
    tool_name: str,
    params: Mapping[str, Any],
    seconds: int,
) -> Items:
    reason = calls.why_not(office_id, computer, of_all=True)
    if reason is not None:
        yield {
            "outcome": Outcome.NOT_FOUND.value,
            "text": reason,
            "call_id": None,
            "took_ms": None,
            "answer": None,
        }
        return
    called = await calls.call(office_id, computer, tool_name, params, seconds=seconds, by=by)
    outcome, text = whole_text(called.answer)
    yield {
        "outcome": outcome.value,
        "text": text,
        "call_id": called.call.call_id,
        "took_ms": called.took_ms,
        "answer": json.loads(json.dumps(called.answer, default=_in_json)),
    }


def _in_json(value: object) -> str:
    """What came as an attachment."""
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)
