"""The reactions that show a task's status."""

import pytest

from bridge.people.message import CANCEL, NO_ANSWER, NOT_STARTED, StatusReaction, needs_reaction, reaction_of
from bridge.tasks.task import State


@pytest.mark.parametrize("state", State)
def test_every_state_has_a_reaction(state: State) -> None:
    """Waiting until the task has ended, then done or failed."""
    expected = (
        StatusReaction.WAITING
        if not state.is_final
        else StatusReaction.DONE
        if state is State.DONE
        else StatusReaction.FAILED
    )
    assert reaction_of(state) is expected


def test_the_reactions_are_different() -> None:
    """The one for failure is also the one with which people cancel."""
    assert [status.emoji for status in StatusReaction] == ["⏳", "✅", "❌"]
    assert StatusReaction.FAILED.emoji in CANCEL


def test_the_states_before_the_start() -> None:
    """Neither runs nor has ended."""
    assert {State.RECEIVED, State.QUEUED, State.ACCEPTED} == NOT_STARTED


def test_when_a_reaction_is_needed() -> None:
    """A task that is done before it had a reaction needs none if it has an answer."""
    assert not needs_reaction(None, StatusReaction.DONE, "$answer")
    assert needs_reaction(None, StatusReaction.DONE, None)
    assert needs_reaction(None, StatusReaction.DONE, NO_ANSWER)
    assert needs_reaction(None, StatusReaction.WAITING, None)
    assert needs_reaction(None, StatusReaction.FAILED, "$answer")
    assert needs_reaction(StatusReaction.WAITING, StatusReaction.DONE, "$answer")
    assert not needs_reaction(StatusReaction.WAITING, StatusReaction.WAITING, None)
