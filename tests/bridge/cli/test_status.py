"""`palaver status`."""

from tests.bridge.cli.conftest import Palaver


def test_without_a_node_it_says_how_to_start_one(palaver: Palaver) -> None:
    """What it says of a running one is tested with processes."""
    said = palaver("status")
    assert said.code == 1
    assert "No node is running" in said.err
    assert "palaver run" in said.err
