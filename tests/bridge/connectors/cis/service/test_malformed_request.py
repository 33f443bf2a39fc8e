"""The rejection of a malformed task request."""

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
def test_the_rejection_names_the_field(content: dict[str, Any]) -> None:
    """In both shapes."""
    answered = reject_malformed_request(content, "living.local", WRONG, SETTINGS)
    assert answered is not None
    assert answered.error.code is ErrorCode.INVALID_PAYLOAD
    assert answered.error.metadata == {"field": "task.prompt"}
    assert "task.prompt is missing" in answered.error.reason
    assert (answered.event.request_id, str(answered.event.from_agent)) == ("req-1", FIELDS["from_agent"])
    assert str(answered.event.to_agent) == "w@kitchen.local"
    assert answered.node_id == "living.local"


@pytest.mark.parametrize("to_agent", [None, 5, "nobody"])
def test_without_a_target_the_node_answers(to_agent: object) -> None:
    """With its own address."""
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
def test_a_request_of_another_node_is_not_answered(changed: dict[str, Any]) -> None:
    """Nor a request without a readable id."""
    assert reject_malformed_request({**FIELDS, **changed}, "living.local", WRONG, SETTINGS) is None


@given(st.dictionaries(st.sampled_from([*FIELDS, "payload"]), HOSTILE))
def test_any_content_is_answered_or_not(content: dict[str, Any]) -> None:
    """Without an exception."""
    reject_malformed_request(content, "living.local", WRONG, SETTINGS)
