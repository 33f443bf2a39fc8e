"""The state machine of a question for approval: `receive(input, now) -> effects` and `deadline()`.

The first answer of an approver decides. Answers of other people have no effect; each of them is notified
once. Without an answer before the deadline the question is refused.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

from bridge.people.message import CANCEL
from bridge.people.texts.text import Text
from federation.matrix.identifiers import domain, is_user_id

APPROVE: Final = frozenset({"✅", "✅\ufe0f"})
REFUSE: Final = CANCEL
"""Reactions with and without the variation selector that some clients append."""
MAX_NOTIFIED: Final = 50
"""Maximum number of people who are notified that their answer does not count."""
LONGEST_WORD: Final = 20

_YES: Final = frozenset({"yes", "y", "ok", "okay", "approve", "approved", "allow", "let"}) | APPROVE
_NO: Final = frozenset({"no", "n", "deny", "denied", "refuse", "refused", "reject", "cancel"}) | REFUSE


class State(Enum):
    WAITING = "waiting"
    APPROVED = "approved"
    REFUSED = "refused"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


# ---- inputs -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """The question is to be sent, and its time begins."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """A reaction to the question. `allowed` is true if the user is an approver."""

    user: str
    emoji: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply to the question, or a message in its thread."""

    user: str
    text: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline has passed."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The question is obsolete. `reason` is shown to people."""

    reason: Text


Input: TypeAlias = Start | Reaction | Reply | Tick | Withdraw


# ---- effects ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """Send the question. `seconds` is the time until its deadline."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Approved:
    by: str


@dataclass(frozen=True, slots=True)
class Refused:
    by: str


@dataclass(frozen=True, slots=True)
class Expired:
    """There was no answer before the deadline."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    reason: Text


@dataclass(frozen=True, slots=True)
class NotPermitted:
    """Notify the user that the answer does not count."""

    user: str


Verdict: TypeAlias = Approved | Refused | Expired | Withdrawn
Effect: TypeAlias = Ask | Verdict | NotPermitted


@dataclass(frozen=True, slots=True)
class _Status:
    """`until` is None before the start."""

    state: State
    seconds: float
    until: float | None = None
    notified: frozenset[str] = frozenset()


_Next: TypeAlias = tuple[_Status, tuple[Effect, ...]]


class Approval:
    """A question for approval. `seconds` is the time for an answer."""

    def __init__(self, seconds: float) -> None:
        self._status = _Status(State.WAITING, seconds)

    @property
    def state(self) -> State:
        return self._status.state

    def deadline(self) -> float | None:
        """When a `Tick` is due."""
        return self._status.until if self._status.state is State.WAITING else None

    def receive(self, input_: Input, now: float) -> tuple[Effect, ...]:
        transition = _TRANSITIONS.get((self._status.state, type(input_)))
        if transition is None:
            return ()
        self._status, effects = transition(self._status, input_, now)
        return effects


# ---- answers ------------------------------------------------------------------------------------------


def may_answer(approvers: Collection[str], user: str, *, administers: bool) -> bool:
    """ "approvers are users and servers; none of them: whoever may administer". If there are approvers, only
    they may answer."""
    if not is_user_id(user):
        return False
    return not {user, domain(user)}.isdisjoint(approvers) if approvers else administers


def reaction_means(emoji: str) -> bool | None:
    """Return True for approval, False for refusal, None for any other reaction."""
    if emoji in APPROVE:
        return True
    return False if emoji in REFUSE else None


def text_means(text: str) -> bool | None:
    """Interpret a message like a reaction. It must consist of the answer only: a sentence could mean
    anything."""
    if len(text) > LONGEST_WORD:
        return None
    word = text.strip().rstrip(".!").casefold()
    if word in _YES:
        return True
    return False if word in _NO else None


# ---- transitions --------------------------------------------------------------------------------------


def _start(status: _Status, input_: Input, now: float) -> _Next:
    """A repeated start changes nothing: the deadline of the first one remains."""
    if status.until is not None:
        return status, ()
    return replace(status, until=now + status.seconds), (Ask(status.seconds),)


def _react(status: _Status, input_: Input, now: float) -> _Next:
    assert isinstance(input_, Reaction), "by the table of transitions"
    return _answer(status, input_, reaction_means(input_.emoji), now)


def _reply(status: _Status, input_: Input, now: float) -> _Next:
    assert isinstance(input_, Reply), "by the table of transitions"
    return _answer(status, input_, text_means(input_.text), now)


def _answer(status: _Status, answer: Reaction | Reply, approves: bool | None, now: float) -> _Next:
    if approves is None or status.until is None:
        return status, ()
    if now >= status.until:
        return _expire(status, answer, now)  # the `Tick` has not arrived yet
    if not answer.allowed:
        if answer.user in status.notified or len(status.notified) >= MAX_NOTIFIED:
            return status, ()
        return replace(status, notified=status.notified | {answer.user}), (NotPermitted(answer.user),)
    if approves:
        return replace(status, state=State.APPROVED), (Approved(answer.user),)
    return replace(status, state=State.REFUSED), (Refused(answer.user),)


def _expire(status: _Status, input_: Input, now: float) -> _Next:
    """A `Tick` before the deadline changes nothing."""
    if status.until is None or now < status.until:
        return status, ()
    return replace(status, state=State.EXPIRED), (Expired(),)


def _withdraw(status: _Status, input_: Input, now: float) -> _Next:
    assert isinstance(input_, Withdraw), "by the table of transitions"
    return replace(status, state=State.WITHDRAWN), (Withdrawn(input_.reason),)


# The states other than WAITING are final, so they have no transitions.
_TRANSITIONS: Final[Mapping[tuple[State, type[Input]], Callable[[_Status, Input, float], _Next]]] = {
    (State.WAITING, Start): _start,
    (State.WAITING, Reaction): _react,
    (State.WAITING, Reply): _reply,
    (State.WAITING, Tick): _expire,
    (State.WAITING, Withdraw): _withdraw,
}
