"""`palaver peers check`."""

import pytest

from storage.errors import LocalError
from tests.bridge.control.server.conftest import Operator


async def test_another_node_is_checked(operator: Operator) -> None:
    """It is found, reached, believed, and believes us; that it is spoken with in the open is told."""
    answer = await operator.ask("peers-check", server="there.test")
    assert answer["verdict"] == "warning"
    texts = " ".join(finding["text"] for finding in answer["findings"])
    assert "It believes what here.test signs." in texts
    assert "in plain HTTP" in texts


async def test_a_node_that_is_down_is_told(operator: Operator) -> None:
    """With what it answers."""
    operator.there.is_down = True
    answer = await operator.ask("peers-check", server="there.test")
    faults = [finding for finding in answer["findings"] if finding["verdict"] == "fault"]
    assert answer["verdict"] == "fault"
    assert "503" in faults[0]["text"]
    assert faults[0]["advice"]


async def test_a_node_checks_itself(operator: Operator) -> None:
    """By the keys that are published under its name."""
    answer = await operator.ask("peers-check", self=True)
    assert answer["server"] == "here.test"
    assert answer["verdict"] != "fault"
    assert await operator.ask("peers-check", server="here.test") == answer


async def test_what_is_to_be_checked_must_be_said(operator: Operator) -> None:
    """And what is no server name is a finding, not a crash."""
    with pytest.raises(LocalError, match="Which server"):
        await operator.ask("peers-check")
    answer = await operator.ask("peers-check", server="https://there.test/")
    assert answer["verdict"] == "fault"
