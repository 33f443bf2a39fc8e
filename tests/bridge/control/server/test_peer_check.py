"""`palaver peers check`."""

import pytest

from storage.errors import LocalError
from tests.bridge.control.server.conftest import Operator


async def test_another_node_is_checked(operator: Operator) -> None:
    """Discovery, connection and authentication in both directions. Plain HTTP is a warning."""
    answer = await operator.ask("peers-check", server="there.test")
    assert answer["verdict"] == "warning"
    texts = " ".join(finding["text"] for finding in answer["findings"])
    assert "It accepts the signature of here.test." in texts
    assert "over plain HTTP" in texts


async def test_a_node_that_is_down_is_a_fault(operator: Operator) -> None:
    """The finding has its response."""
    operator.there.is_down = True
    answer = await operator.ask("peers-check", server="there.test")
    faults = [finding for finding in answer["findings"] if finding["verdict"] == "fault"]
    assert answer["verdict"] == "fault"
    assert "503" in faults[0]["text"]
    assert faults[0]["advice"]


async def test_a_node_can_check_itself(operator: Operator) -> None:
    """With the keys that are published under its name."""
    answer = await operator.ask("peers-check", self=True)
    assert answer["server"] == "here.test"
    assert answer["verdict"] != "fault"
    assert await operator.ask("peers-check", server="here.test") == answer


async def test_a_server_name_is_required(operator: Operator) -> None:
    """An invalid server name is a finding, not an exception."""
    with pytest.raises(LocalError, match="needs one server"):
        await operator.ask("peers-check")
    answer = await operator.ask("peers-check", server="https://there.test/")
    assert answer["verdict"] == "fault"
