"""`palaver status`."""

from tests.bridge.cli.conftest import Palaver


def test_without_a_node_the_advice_is_to_start_one(palaver: Palaver) -> None:
    """The status of a running node is tested in tests/process."""
    result = palaver("status")
    assert result.code == 1
    assert "No node is running" in result.err
    assert "palaver run" in result.err
