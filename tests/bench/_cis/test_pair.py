"""A task across two nodes, as it is measured."""

from bench._cis.pair import pair


async def test_tasks_are_asked_for_and_answered_across_two_nodes() -> None:
    """One at a time, and several at once; each of the agents that ask has asked for the first time once."""
    async with pair() as nodes:
        one = await nodes.ask(0.01, 1)
        assert len(one["durations"]) >= 1
        assert len(one["first"]) == 1
        some = await nodes.ask(0.01, 3)
        assert len(some["durations"]) >= 3
        assert len(some["first"]) == 2
        assert min(some["durations"]) > 0
        assert set(some["cpu"]) == {"asking", "asking-postgres", "answering", "answering-postgres"}
        assert any("fsync on" in remark for remark in nodes.remarks)
