"""Which agents are shown."""

from typing import Any

import pytest

from bridge.agents.agent import TIMEOUT, Agent, AgentStatus
from bridge.agents.search import STATUSES, AgentSearch, display_status
from tests.support.agents import NOW

AGENT = Agent(
    "worker", "kitchen", "cis", "Claude", ("coding", "lang:python"), AgentStatus.BUSY, "t-1", NOW, NOW, NOW
)
LOST = AGENT._replace(gone_at=NOW, gone_reason=TIMEOUT)


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({}, True),
        ({"node": "kitchen"}, True),
        ({"node": "living"}, False),
        ({"status": "busy"}, True),
        ({"status": "idle"}, False),
        ({"status": "gone"}, False),
        ({"capabilities": ("CODING",)}, True),
        ({"capabilities": ("coding", "lang:*")}, True),
        ({"capabilities": ("coding", "baking")}, False),
        ({"words": AgentSearch.words_of("claude  T-1 kit")}, True),
        ({"words": AgentSearch.words_of("claude oven")}, False),
    ],
)
def test_each_condition_counts(wanted: dict[str, Any], fits: bool) -> None:
    """What is not said is not looked at."""
    assert AgentSearch(**wanted).matches(AGENT) is fits


def test_who_is_gone_is_shown_on_demand() -> None:
    """Whatever they did last: one that was lost in the middle of its work is not busy."""
    assert display_status(LOST) == "gone"
    assert not AgentSearch().matches(LOST)
    assert not AgentSearch(status="busy", with_gone=True).matches(LOST)
    assert AgentSearch(with_gone=True).matches(LOST)
    assert AgentSearch(status="gone").matches(LOST)
    assert AgentSearch(words=("timeout",), with_gone=True).matches(LOST)


def test_every_status_can_be_asked_for() -> None:
    """But the one that is never said of an agent."""
    assert set(STATUSES) == {status.value for status in AgentStatus} - {"initial"} | {"gone"}
