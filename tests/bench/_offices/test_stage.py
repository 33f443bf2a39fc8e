"""Both servers, as a run has them."""

import pytest

from bench._offices import stage as parts
from bench._offices.sides import NODE, REFERENCE
from bench._offices.stage import stage


async def test_calls_are_answered_by_both_and_written_down_by_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the way that a run takes, with few offices. The rooms know of all of it when the next one begins."""
    monkeypatch.setattr(parts, "OFFICES", 2)
    async with stage() as made:
        for side in (NODE, REFERENCE):
            for offices, at_once in ((1, 1), (2, 4)):
                came = await made.ask(side, "some", offices=offices, at_once=at_once, seconds=0.05)
                assert len(came["durations"]) >= at_once
                assert min(came["durations"]) > 0
                assert set(came["cpu"]) == {NODE, REFERENCE, "postgres", "generator"}
        assert made.calls > 0
        said = " ".join(made.remarks)
        assert "fsync on" in said
        assert "were untold at most" in said
