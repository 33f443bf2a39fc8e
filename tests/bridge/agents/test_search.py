"""Searching for agents."""

from typing import Any

import pytest

from bridge.agents.agent import TIMEOUT, Agent, AgentStatus
from bridge.agents.search import STATUSES, AgentSearch, display_status
from tests.support.agents import NOW

AGENT = Agent("worker", "kitchen", "cis", "Claude", ("coding", "lang:python"), AgentStatus.BUSY, "t-1", NOW, NOW, NOW)
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
def test_each_criterion_applies(wanted: dict[str, Any], fits: bool) -> None:
    """One that is not given does not."""
    assert AgentSearch(**wanted).matches(AGENT) is fits


def test_offline_agents_are_shown_on_request() -> None:
    """With their last status hidden: an agent lost during a task is not busy."""
    assert display_status(LOST) == "gone"
    assert not AgentSearch().matches(LOST)
    assert not AgentSearch(status="busy", with_gone=True).matches(LOST)
    assert AgentSearch(with_gone=True).matches(LOST)
    assert AgentSearch(status="gone").matches(LOST)
    assert AgentSearch(words=("timeout",), with_gone=True).matches(LOST)


def test_every_sent_status_can_be_searched() -> None:
    """`initial` is never sent."""
    assert set(STATUSES) == {status.value for status in AgentStatus} - {"initial"} | {"gone"}
