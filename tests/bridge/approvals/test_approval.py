"""A question to people, as a machine decides it."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.approvals.approval import (
    _TRANSITIONS,
    MOST_TOLD,
    Approval,
    Approved,
    Ask,
    Asked,
    Effect,
    Expired,
    Input,
    NotPermitted,
    Reacted,
    Refused,
    Replied,
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
BEGAN, SECONDS = 100.0, 60.0
GONE = Text.of("hands is gone.")
INPUTS: dict[type[Input], Input] = {
    Asked: Asked(),
    Reacted: Reacted(ALICE, "✅", True),
    Replied: Replied(ALICE, "no", True),
    Tick: Tick(),
    Withdraw: Withdraw(GONE),
}
INTO: dict[State, tuple[Input, float]] = {
    State.APPROVED: (Reacted(ALICE, "✅", True), BEGAN),
    State.REFUSED: (Reacted(ALICE, "❌", True), BEGAN),
    State.EXPIRED: (Tick(), BEGAN + SECONDS),
    State.WITHDRAWN: (Withdraw(GONE), BEGAN),
}


def asked(state: State = State.WAITING) -> Approval:
    approval = Approval(SECONDS)
    assert approval.receive(Asked(), BEGAN) == (Ask(SECONDS),)
    if state in INTO:
        approval.receive(*INTO[state])
    assert approval.state is state
    return approval


def test_what_can_happen_is_what_the_table_knows() -> None:
    """Whatever is not in it changes nothing."""
    assert {kind for _, kind in _TRANSITIONS} == set(get_args(Input)) == set(INPUTS)
    assert {state for state, _ in _TRANSITIONS} == {State.WAITING}


@pytest.mark.parametrize("state", list(INTO))
@pytest.mark.parametrize("kind", list(INPUTS))
def test_what_has_ended_has_ended(state: State, kind: type[Input]) -> None:
    """No answer counts after the first, and there is nothing to wait for."""
    approval = asked(state)
    assert approval.receive(INPUTS[kind], BEGAN + 5 * SECONDS) == ()
    assert approval.state is state
    assert approval.deadline() is None


@pytest.mark.parametrize(
    ("happened", "effects", "state"),
    [
        (Reacted(ALICE, "✅", True), (Approved(ALICE),), State.APPROVED),
        (Reacted(ALICE, "✅\ufe0f", True), (Approved(ALICE),), State.APPROVED),
        (Reacted(ALICE, "❌", True), (Refused(ALICE),), State.REFUSED),
        (Reacted(ALICE, "❌\ufe0f", True), (Refused(ALICE),), State.REFUSED),
        (Replied(ALICE, "Yes.", True), (Approved(ALICE),), State.APPROVED),
        (Replied(ALICE, "no", True), (Refused(ALICE),), State.REFUSED),
        (Withdraw(GONE), (Withdrawn(GONE),), State.WITHDRAWN),
        (Reacted(ALICE, "👍", True), (), State.WAITING),
        (Replied(ALICE, "what does it do?", True), (), State.WAITING),
        (Reacted(BOB, "👍", False), (), State.WAITING),
        (Asked(), (), State.WAITING),
        (Tick(), (), State.WAITING),
    ],
)
def test_what_becomes_of_a_question(happened: Input, effects: tuple[object, ...], state: State) -> None:
    """An answer ends it; what is none changes nothing, and neither does a clock that rings early."""
    approval = asked()
    assert approval.receive(happened, BEGAN + 1) == effects
    assert approval.state is state
    assert (approval.deadline() is None) == (state is not State.WAITING)


def test_without_an_answer_it_expires() -> None:
    """At the deadline, which does not move when it is asked again."""
    approval = asked()
    approval.receive(Asked(), BEGAN + 30)
    assert approval.deadline() == BEGAN + SECONDS
    assert approval.receive(Tick(), BEGAN + SECONDS - 0.01) == ()
    assert approval.receive(Tick(), BEGAN + SECONDS) == (Expired(),)
    assert approval.state is State.EXPIRED


@pytest.mark.parametrize("said", [Reacted(ALICE, "✅", True), Replied(ALICE, "yes", True)])
def test_an_answer_after_the_deadline_is_none(said: Input) -> None:
    """Even if it comes before the clock has rung."""
    approval = asked()
    assert approval.receive(said, BEGAN + SECONDS) == (Expired(),)
    assert approval.state is State.EXPIRED


def test_before_anybody_is_asked_nobody_can_answer() -> None:
    """What has not been asked has no deadline; taken back it can be."""
    approval = Approval(SECONDS)
    assert approval.deadline() is None
    for early in (Reacted(ALICE, "✅", True), Replied(ALICE, "yes", True), Tick()):
        assert approval.receive(early, BEGAN) == ()
    assert approval.receive(Withdraw(GONE), BEGAN) == (Withdrawn(GONE),)
    assert approval.receive(Asked(), BEGAN) == ()


@pytest.mark.parametrize(
    "said", [Reacted(BOB, "✅", False), Reacted(BOB, "❌", False), Replied(BOB, "yes", False)]
)
def test_who_is_not_permitted_changes_nothing_and_is_told(said: Input) -> None:
    """Once: whoever goes on gets no more for it. The permitted answer counts all the same."""
    approval = asked()
    assert approval.receive(said, BEGAN) == (NotPermitted(BOB),)
    for again in (said, Reacted(BOB, "✅", False)):
        assert approval.receive(again, BEGAN) == ()
    assert approval.state is State.WAITING
    assert approval.receive(Reacted(ALICE, "✅", True), BEGAN) == (Approved(ALICE),)


def test_a_crowd_is_not_told_without_end() -> None:
    approval = asked()
    told = [approval.receive(Reacted(f"@u{n}:x.test", "✅", False), BEGAN) for n in range(MOST_TOLD + 20)]
    assert sum(map(len, told)) == MOST_TOLD


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    *INPUTS.values(),
                    Reacted(BOB, "✅", False),
                    Replied(BOB, "no", False),
                    Reacted(ALICE, "❌", True),
                ]
            ),
            st.floats(0, 30),
        )
    )
)
def test_it_ends_once(happens: list[tuple[Input, float]]) -> None:
    """Whatever happens, in whatever order: asked once, ended once, and never by who is not permitted."""
    approval, now = Approval(SECONDS), BEGAN
    effects: list[Effect] = []
    for happened, passed in happens:
        now += passed
        effects += approval.receive(happened, now)
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
def test_what_a_message_means(text: str, means: bool | None) -> None:
    """It is the answer and nothing more, or none."""
    assert text_means(text) is means


@pytest.mark.parametrize("emoji", ["", "✔", "👍", "✅✅", "❌ ", "yes"])
def test_other_reactions_mean_nothing(emoji: str) -> None:
    assert reaction_means(emoji) is None
