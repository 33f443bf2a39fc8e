"""A task as people see it."""

import pytest

from bridge.people.message import CANCEL, NO_ANSWER, NOT_BEGUN, Sign, needs_sign, sign_of
from bridge.tasks.task import State


@pytest.mark.parametrize("state", State)
def test_every_state_has_its_sign(state: State) -> None:
    """It waits as long as it has not ended, and has failed if it was not done."""
    expected = Sign.WAITING if not state.is_final else Sign.DONE if state is State.DONE else Sign.FAILED
    assert sign_of(state) is expected


def test_the_signs() -> None:
    """Three that can be told apart, and the one by which a person takes a task back."""
    assert [sign.emoji for sign in Sign] == ["⏳", "✅", "❌"]
    assert Sign.FAILED.emoji in CANCEL


def test_what_has_not_begun() -> None:
    """Neither runs nor has ended."""
    assert {State.RECEIVED, State.QUEUED, State.ACCEPTED} == NOT_BEGUN


def test_which_sign_is_worth_an_event() -> None:
    """Of what was never seen waiting the answer says that it is done, if there is one. Everything else is
    said, once."""
    assert not needs_sign(None, Sign.DONE, "$answer")
    assert needs_sign(None, Sign.DONE, None)
    assert needs_sign(None, Sign.DONE, NO_ANSWER)
    assert needs_sign(None, Sign.WAITING, None)
    assert needs_sign(None, Sign.FAILED, "$answer")
    assert needs_sign(Sign.WAITING, Sign.DONE, "$answer")
    assert not needs_sign(Sign.WAITING, Sign.WAITING, None)
