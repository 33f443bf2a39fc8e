"""One question to people: who may answer it, until when, and its verdict.

A machine: `receive(input, now) -> effects`, `deadline()`. The first answer of a person who may give one
counts; an answer of others changes nothing, and they are told once. Without an answer nothing is approved.
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
"""Reactions. Some clients add a selector of its form."""
MOST_TOLD: Final = 50
"""People who are told that they may not answer, each once."""
LONGEST_WORD: Final = 20

_YES: Final = frozenset({"yes", "y", "ok", "okay", "approve", "approved", "allow", "let"}) | APPROVE
_NO: Final = frozenset({"no", "n", "deny", "denied", "refuse", "refused", "reject", "cancel"}) | REFUSE


class State(Enum):
    WAITING = "waiting"
    APPROVED = "approved"
    REFUSED = "refused"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


# ---- what happens -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """The question is put to people."""


@dataclass(frozen=True, slots=True)
class Reacted:
    """To the question. `allowed`: whether the user may answer."""

    user: str
    emoji: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class Replied:
    """To the question, or in its thread."""

    user: str
    text: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline has come."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """There is nothing to decide any more. `reason` is what people are told."""

    reason: Text


Input: TypeAlias = Asked | Reacted | Replied | Tick | Withdraw


# ---- what is to be done -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask people. `seconds`: how long they have."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Approved:
    by: str


@dataclass(frozen=True, slots=True)
class Refused:
    by: str


@dataclass(frozen=True, slots=True)
class Expired:
    """Without an answer."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    reason: Text


@dataclass(frozen=True, slots=True)
class NotPermitted:
    """Tell the user, whose answer does not count."""

    user: str


Verdict: TypeAlias = Approved | Refused | Expired | Withdrawn
Effect: TypeAlias = Ask | Verdict | NotPermitted


@dataclass(frozen=True, slots=True)
class _Known:
    """`until` is None before anybody is asked."""

    state: State
    seconds: float
    until: float | None = None
    told: frozenset[str] = frozenset()


_Next: TypeAlias = tuple[_Known, tuple[Effect, ...]]


class Approval:
    """`seconds`: how long people have for an answer."""

    def __init__(self, seconds: float) -> None:
        self._known = _Known(State.WAITING, seconds)

    @property
    def state(self) -> State:
        return self._known.state

    def deadline(self) -> float | None:
        """When a `Tick` is due."""
        return self._known.until if self._known.state is State.WAITING else None

    def receive(self, happened: Input, now: float) -> tuple[Effect, ...]:
        act = _TRANSITIONS.get((self._known.state, type(happened)))
        if act is None:
            return ()
        self._known, effects = act(self._known, happened, now)
        return effects


# ---- who answers what ---------------------------------------------------------------------------------


def may_answer(approvers: Collection[str], user: str, *, administers: bool) -> bool:
    """ "approvers are users and servers; none of them: whoever may administer". Where some are named, nobody
    else may."""
    if not is_user_id(user):
        return False
    return not {user, domain(user)}.isdisjoint(approvers) if approvers else administers


def reaction_means(emoji: str) -> bool | None:
    """True approves, False refuses; None is no answer."""
    if emoji in APPROVE:
        return True
    return False if emoji in REFUSE else None


def text_means(text: str) -> bool | None:
    """The same of a message, which has to be the answer and nothing more: a sentence may mean anything."""
    if len(text) > LONGEST_WORD:
        return None
    word = text.strip().rstrip(".!").casefold()
    if word in _YES:
        return True
    return False if word in _NO else None


# ---- the transitions ----------------------------------------------------------------------------------


def _ask(known: _Known, happened: Input, now: float) -> _Next:
    """Once: asked again, the question is the same, and its time goes on."""
    if known.until is not None:
        return known, ()
    return replace(known, until=now + known.seconds), (Ask(known.seconds),)


def _react(known: _Known, happened: Input, now: float) -> _Next:
    assert isinstance(happened, Reacted), "the table says so"
    return _answer(known, happened, reaction_means(happened.emoji), now)


def _reply(known: _Known, happened: Input, now: float) -> _Next:
    assert isinstance(happened, Replied), "the table says so"
    return _answer(known, happened, text_means(happened.text), now)


def _answer(known: _Known, answer: Reacted | Replied, approves: bool | None, now: float) -> _Next:
    if approves is None or known.until is None:
        return known, ()
    if now >= known.until:
        return _expire(known, answer, now)  # the `Tick` is on its way
    if not answer.allowed:
        if answer.user in known.told or len(known.told) >= MOST_TOLD:
            return known, ()
        return replace(known, told=known.told | {answer.user}), (NotPermitted(answer.user),)
    if approves:
        return replace(known, state=State.APPROVED), (Approved(answer.user),)
    return replace(known, state=State.REFUSED), (Refused(answer.user),)


def _expire(known: _Known, happened: Input, now: float) -> _Next:
    """A clock that rings early changes nothing."""
    if known.until is None or now < known.until:
        return known, ()
    return replace(known, state=State.EXPIRED), (Expired(),)


def _withdraw(known: _Known, happened: Input, now: float) -> _Next:
    assert isinstance(happened, Withdraw), "the table says so"
    return replace(known, state=State.WITHDRAWN), (Withdrawn(happened.reason),)


# What has ended has ended: nothing that comes later changes it.
_TRANSITIONS: Final[Mapping[tuple[State, type[Input]], Callable[[_Known, Input, float], _Next]]] = {
    (State.WAITING, Asked): _ask,
    (State.WAITING, Reacted): _react,
    (State.WAITING, Replied): _reply,
    (State.WAITING, Tick): _expire,
    (State.WAITING, Withdraw): _withdraw,
}
