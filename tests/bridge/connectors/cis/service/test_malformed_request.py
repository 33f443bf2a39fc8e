"""To whom the refusal of a request goes that cannot be read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol.refusals import InvalidPayload
from bridge.connectors.cis.service.room_reader import reject_malformed_request
from bridge.connectors.cis.settings import CisSettings
from bridge.tasks.errors import ErrorCode
from tests.bridge.connectors.cis.samples import HOSTILE

SETTINGS = CisSettings("kitchen.local")
WRONG = InvalidPayload("task.prompt", "is missing")
FIELDS = {"request_id": "req-1", "from_agent": "coordinator@living.local", "to_agent": "w@kitchen.local"}


@pytest.mark.parametrize("content", [FIELDS, {"event_type": "x", "payload": FIELDS}])
def test_it_is_answered_with_the_field_named(content: dict[str, Any]) -> None:
    """In either shape."""
    answered = reject_malformed_request(content, "living.local", WRONG, SETTINGS)
    assert answered is not None
    assert answered.error.code is ErrorCode.INVALID_PAYLOAD
    assert answered.error.metadata == {"field": "task.prompt"}
    assert "task.prompt is missing" in answered.error.reason
    assert (answered.event.request_id, str(answered.event.from_agent)) == ("req-1", FIELDS["from_agent"])
    assert str(answered.event.to_agent) == "w@kitchen.local"
    assert answered.node_id == "living.local"


@pytest.mark.parametrize("to_agent", [None, 5, "nobody"])
def test_if_nobody_is_named_the_node_answers(to_agent: object) -> None:
    """For itself."""
    content = {**FIELDS, "to_agent": to_agent}
    answered = reject_malformed_request(content, "living.local", WRONG, SETTINGS)
    assert answered is not None
    assert str(answered.event.to_agent) == "palaver@kitchen.local"


@pytest.mark.parametrize(
    "changed",
    [
        {"request_id": None},
        {"request_id": ""},
        {"request_id": "x" * 256},
        {"request_id": "\0"},
        {"request_id": "\ud800"},
        {"from_agent": None},
        {"from_agent": "coordinator"},
        {"from_agent": "coordinator@elsewhere"},
    ],
)
def test_nobody_is_answered_in_the_name_of_another(changed: dict[str, Any]) -> None:
    """Nor without knowing what is answered."""
    assert reject_malformed_request({**FIELDS, **changed}, "living.local", WRONG, SETTINGS) is None


@given(st.dictionaries(st.sampled_from([*FIELDS, "payload"]), HOSTILE))
def test_whatever_it_holds(content: dict[str, Any]) -> None:
    """It is answered or it is not."""
    reject_malformed_request(content, "living.local", WRONG, SETTINGS)
