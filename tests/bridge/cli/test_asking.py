"""Commands that the running node executes."""

import pytest

from tests.bridge.cli.conftest import OperatedNode, Palaver


@pytest.mark.parametrize(
    "words",
    [["rooms", "list"], ["rooms", "leave", "!a:b", "--yes"], ["events", "show", "$a"], ["peers", "list"], ["queue"]],
)
def test_without_a_node_the_advice_is_to_start_one(palaver: Palaver, words: list[str]) -> None:
    """In the text and in the JSON output."""
    result = palaver(*words)
    assert result.code == 1
    assert "No node is running" in result.err
    assert "palaver run" in result.err
    assert "palaver run" in palaver(*words, "--json").json["error"]["advice"]


async def test_an_error_of_the_node_is_printed(operated: OperatedNode) -> None:
    """Without control characters."""
    result = await operated.palaver("rooms", "show", "kit\x1b[2Jchen")
    assert result.code == 1
    assert "with the id, alias or name kit\\x1b[2Jchen." in result.err
    assert "\x1b" not in result.err
