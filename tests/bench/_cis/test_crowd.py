"""Nodes that are played, and one of ours that learns of their agents."""

import pytest

from bench._cis import crowd as parts
from bench._cis.crowd import FEW, NODES, crowd
from bench._cis.knowing import beaten, decided, each, learned, loaded, noticed


async def test_a_crowd_is_learned_heard_and_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the way that a run takes, with a few agents on each node. What happens once is read by every row."""
    monkeypatch.setattr(parts, "TIMEOUT", 2.0)
    monkeypatch.setattr(parts, "BEAT", 0.5)
    async with crowd() as played:
        first = await learned(played, 0.01, of="seconds")
        assert (first.operations, first.value > 0) == (NODES * FEW, True)
        assert (await learned(played, 60.0, of="cpu")).operations == NODES * FEW
        assert (await each(played, 0.01, of="rows")).value >= 2
        assert (await loaded(played, 0.01, of="seconds")).operations >= NODES * FEW
        assert (await beaten(played, 0.01, of="seconds")).operations == NODES
        assert (await decided(played, 0.01)).operations > 0
        assert (await noticed(played, 0.01)).operations == 1
        assert f"{NODES} played nodes with {FEW} agents" in played.remarks[0]
