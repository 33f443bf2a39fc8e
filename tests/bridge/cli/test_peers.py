"""`palaver peers`, from the words to the node and back."""

import asyncio

import pytest

from tests.bridge.cli.conftest import Operated, Palaver
from tests.bridge.cli.test_queue import PATIENCE, waiting


async def test_peers_are_listed(operated: Operated) -> None:
    """With what connects us, and what keeps us apart."""
    await waiting(operated)
    said = await operated.palaver("peers", "list")
    for words in ("there.test", "configuration, 1 room", "backing off", "answered 503"):
        assert words in said.out
    assert "No server is known." in (await operated.palaver("peers", "list", "--search", "nobody")).out
    assert (await operated.json("peers", "list"))["peers"][0]["server"] == "there.test"


@pytest.mark.parametrize("which", ["there.test", "--all"])
async def test_a_peer_is_tried_again(operated: Operated, which: str) -> None:
    """After it was put right."""
    event_id = await waiting(operated)
    schedule = operated.node.outbox._senders["there.test"]._machine._schedule  # type: ignore[union-attr] # it runs
    schedule._attempted_at -= 10_000
    operated.there.is_down = False
    said = await operated.palaver("peers", "retry", which)
    assert "there.test is tried now." in said.out
    async with asyncio.timeout(PATIENCE):
        await operated.there.until(lambda came, _: came == event_id)


async def test_nobody_is_tried_for_nothing(operated: Operated) -> None:
    """And the person is told."""
    assert "Nothing waits for anybody." in (await operated.palaver("peers", "retry", "--all")).out
    assert "nothing waits for it" in (await operated.palaver("peers", "retry", "there.test")).out


@pytest.mark.parametrize("words", [[], ["a.test", "--all"]])
def test_who_is_to_be_tried_must_be_said(palaver: Palaver, words: list[str]) -> None:
    """One, or all."""
    said = palaver("peers", "retry", *words)
    assert (said.code, "--all" in said.err) == (1, True)


async def test_a_peer_is_checked(operated: Operated) -> None:
    """Step by step, with a mark for each; a fault makes the exit code one."""
    said = await operated.palaver("peers", "check", "there.test")
    assert (said.code, "It believes what here.test signs." in said.out) == (0, True)
    assert "there.test works, or may" in said.out
    operated.there.is_down = True
    said = await operated.palaver("peers", "check", "there.test")
    assert (said.code, "✗ keys" in said.out, "→" in said.out) == (1, True, True)
    code = (await operated.palaver("peers", "check", "a[bold]\x1b[2J", "--json")).json
    assert code["verdict"] == "fault"
    assert "a[bold]\\x1b[2J is not" in (await operated.palaver("peers", "check", "a[bold]\x1b[2J")).out


async def test_a_node_checks_itself(operated: Operated) -> None:
    """As others see it."""
    assert (await operated.json("peers", "check", "--self"))["server"] == "here.test"


@pytest.mark.parametrize("words", [[], ["a.test", "--self"]])
def test_what_is_to_be_checked_must_be_said(palaver: Palaver, words: list[str]) -> None:
    """One of both."""
    said = palaver("peers", "check", *words)
    assert (said.code, "--self" in said.err) == (1, True)
