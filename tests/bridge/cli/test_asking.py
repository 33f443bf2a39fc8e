"""Commands that the running node carries out."""

import pytest

from tests.bridge.cli.conftest import Operated, Palaver


@pytest.mark.parametrize(
    "words",
    [
        ["rooms", "list"],
        ["rooms", "leave", "!a:b", "--yes"],
        ["events", "show", "$a"],
        ["peers", "list"],
        ["queue"],
    ],
)
def test_without_a_node_it_says_how_to_start_one(palaver: Palaver, words: list[str]) -> None:
    """In both voices."""
    said = palaver(*words)
    assert said.code == 1
    assert "No node is running" in said.err
    assert "palaver run" in said.err
    assert "palaver run" in palaver(*words, "--json").json["error"]["advice"]


async def test_what_the_node_refuses_is_told_in_its_words(operated: Operated) -> None:
    """And nothing in it reaches the terminal itself."""
    said = await operated.palaver("rooms", "show", "kit\x1b[2Jchen")
    assert said.code == 1
    assert "whose id, alias or name is kit\\x1b[2Jchen." in said.err
    assert "\x1b" not in said.err
