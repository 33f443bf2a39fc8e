"""The state machine of a question for approval."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.approvals.approval import (
    _TRANSITIONS,
    MAX_NOTIFIED,
    Approval,
    Approved,
    Ask,
    Effect,
    Expired,
    Input,
    NotPermitted,
    Reaction,
    Refused,
    Reply,
    Start,
    State,
    Tick,
    Verdict,
    Withdraw,
    Withdrawn,
    may_answer,
    reaction_means,
    text_means,
)
from bridge.people.texts.text import Text

ALICE, BOB = "@alice:here.test", "@bob:there.test"
STARTED, SECONDS = 100.0, 60.0
OBSOLETE = Text.of("hands is gone.")
INPUTS: dict[type[Input], Input] = {
    Start: Start(),
    Reaction: Reaction(ALICE, "✅", True),
    Reply: Reply(ALICE, "no", True),
    Tick: Tick(),
    Withdraw: Withdraw(OBSOLETE),
}
INTO: dict[State, tuple[Input, float]] = {
    State.APPROVED: (Reaction(ALICE, "✅", True), STARTED),
    State.REFUSED: (Reaction(ALICE, "❌", True), STARTED),
    State.EXPIRED: (Tick(), STARTED + SECONDS),
    State.WITHDRAWN: (Withdraw(OBSOLETE), STARTED),
}


def started(state: State = State.WAITING) -> Approval:
    approval = Approval(SECONDS)
    assert approval.receive(Start(), STARTED) == (Ask(SECONDS),)
    if state in INTO:
        approval.receive(*INTO[state])
    assert approval.state is state
    return approval


def test_only_waiting_questions_have_transitions() -> None:
    """All inputs have one."""
    assert {kind for _, kind in _TRANSITIONS} == set(get_args(Input)) == set(INPUTS)
    assert {state for state, _ in _TRANSITIONS} == {State.WAITING}


@pytest.mark.parametrize("state", list(INTO))
@pytest.mark.parametrize("kind", list(INPUTS))
def test_final_states_ignore_all_inputs(state: State, kind: type[Input]) -> None:
    """Later answers have no effect, and there is no deadline."""
    approval = started(state)
    assert approval.receive(INPUTS[kind], STARTED + 5 * SECONDS) == ()
    assert approval.state is state
    assert approval.deadline() is None


@pytest.mark.parametrize(
    ("input_", "effects", "state"),
    [
        (Reaction(ALICE, "✅", True), (Approved(ALICE),), State.APPROVED),
        (Reaction(ALICE, "✅\ufe0f", True), (Approved(ALICE),), State.APPROVED),
        (Reaction(ALICE, "❌", True), (Refused(ALICE),), State.REFUSED),
        (Reaction(ALICE, "❌\ufe0f", True), (Refused(ALICE),), State.REFUSED),
        (Reply(ALICE, "Yes.", True), (Approved(ALICE),), State.APPROVED),
        (Reply(ALICE, "no", True), (Refused(ALICE),), State.REFUSED),
        (Withdraw(OBSOLETE), (Withdrawn(OBSOLETE),), State.WITHDRAWN),
        (Reaction(ALICE, "👍", True), (), State.WAITING),
        (Reply(ALICE, "what does it do?", True), (), State.WAITING),
        (Reaction(BOB, "👍", False), (), State.WAITING),
        (Start(), (), State.WAITING),
        (Tick(), (), State.WAITING),
    ],
)
def test_the_transitions_of_a_waiting_question(input_: Input, effects: tuple[object, ...], state: State) -> None:
    """Other messages and an early tick change nothing."""
    approval = started()
    assert approval.receive(input_, STARTED + 1) == effects
    assert approval.state is state
    assert (approval.deadline() is None) == (state is not State.WAITING)


def test_without_an_answer_it_expires() -> None:
    """At the deadline, which a repeated start does not move."""
    approval = started()
    approval.receive(Start(), STARTED + 30)
    assert approval.deadline() == STARTED + SECONDS
    assert approval.receive(Tick(), STARTED + SECONDS - 0.01) == ()
    assert approval.receive(Tick(), STARTED + SECONDS) == (Expired(),)
    assert approval.state is State.EXPIRED


@pytest.mark.parametrize("said", [Reaction(ALICE, "✅", True), Reply(ALICE, "yes", True)])
def test_an_answer_after_the_deadline_is_ignored(said: Input) -> None:
    """Even if it arrives before the tick."""
    approval = started()
    assert approval.receive(said, STARTED + SECONDS) == (Expired(),)
    assert approval.state is State.EXPIRED


def test_before_the_start_answers_are_ignored() -> None:
    """There is no deadline. The question can be withdrawn."""
    approval = Approval(SECONDS)
    assert approval.deadline() is None
    for early in (Reaction(ALICE, "✅", True), Reply(ALICE, "yes", True), Tick()):
        assert approval.receive(early, STARTED) == ()
    assert approval.receive(Withdraw(OBSOLETE), STARTED) == (Withdrawn(OBSOLETE),)
    assert approval.receive(Start(), STARTED) == ()


@pytest.mark.parametrize("said", [Reaction(BOB, "✅", False), Reaction(BOB, "❌", False), Reply(BOB, "yes", False)])
def test_answers_of_others_have_no_effect(said: Input) -> None:
    """Each person is notified once. The answer of an approver still counts."""
    approval = started()
    assert approval.receive(said, STARTED) == (NotPermitted(BOB),)
    for again in (said, Reaction(BOB, "✅", False)):
        assert approval.receive(again, STARTED) == ()
    assert approval.state is State.WAITING
    assert approval.receive(Reaction(ALICE, "✅", True), STARTED) == (Approved(ALICE),)


def test_the_number_of_notifications_is_limited() -> None:
    approval = started()
    notified = [approval.receive(Reaction(f"@u{n}:x.test", "✅", False), STARTED) for n in range(MAX_NOTIFIED + 20)]
    assert sum(map(len, notified)) == MAX_NOTIFIED


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [*INPUTS.values(), Reaction(BOB, "✅", False), Reply(BOB, "no", False), Reaction(ALICE, "❌", True)]
            ),
            st.floats(0, 30),
        )
    )
)
def test_it_has_one_question_and_one_verdict(happens: list[tuple[Input, float]]) -> None:
    """Whatever happens in any order, and never by a person who is not an approver."""
    approval, now = Approval(SECONDS), STARTED
    effects: list[Effect] = []
    for input_, passed in happens:
        now += passed
        effects += approval.receive(input_, now)
    endings = [effect for effect in effects if isinstance(effect, get_args(Verdict))]
    assert len(endings) == (approval.state is not State.WAITING)
    assert sum(isinstance(effect, Ask) for effect in effects) <= 1
    assert not {Approved(BOB), Refused(BOB)} & set(endings)


@pytest.mark.parametrize(
    ("approvers", "user", "administers", "may"),
    [
        ((), ALICE, True, True),
        ((), ALICE, False, False),
        ((ALICE,), ALICE, False, True),
        ((ALICE,), BOB, True, False),
        (("there.test",), BOB, False, True),
        (("there.test", ALICE), ALICE, False, True),
        (("there.test",), "@bob:there.test:8448", False, False),
        (("there.test:8448",), "@bob:there.test:8448", False, True),
        (("there.test",), "@bob:there.test:evil.test", False, False),
        (("there.test",), "there.test", True, False),
        ((), "alice", True, False),
        (("evil.test",), "@there.test:evil.test", False, True),
        ((ALICE,), "@Alice:here.test", True, False),
    ],
)
def test_who_may_answer(approvers: tuple[str, ...], user: str, administers: bool, may: bool) -> None:
    """ "Approvers are users and servers; none of them: whoever may administer"."""
    assert may_answer(approvers, user, administers=administers) is may


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("yes", True), (" YES! ", True), ("ok", True), ("✅", True), ("No.", False), ("refuse", False),
        ("❌\ufe0f", False), ("yes and no", None), ("", None), ("no idea", None), ("y" * 10**6, None),
        ("not yes", None), ("👍", None),
    ],
)  # fmt: skip
def test_the_meaning_of_a_message(text: str, means: bool | None) -> None:
    """It must consist of the answer only."""
    assert text_means(text) is means


@pytest.mark.parametrize("emoji", ["", "✔", "👍", "✅✅", "❌ ", "yes"])
def test_other_reactions_are_ignored(emoji: str) -> None:
    assert reaction_means(emoji) is None
