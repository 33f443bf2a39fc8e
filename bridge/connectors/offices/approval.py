"""One call that people have to approve: whether it is let to the Computer, and what else becomes of it.

A machine: `receive(input, now) -> effects`, `deadline()`. The first answer of somebody who may give one
counts; who may not changes nothing, and is told. Without an answer nothing is let.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

from bridge.connectors.offices.settings import ApprovalRule
from bridge.people.thread import CANCEL
from federation.identifiers import domain, is_user_id

LET: Final = frozenset({"✅", "✅\ufe0f"})
REFUSE: Final = CANCEL
"""Reactions. Some clients add a selector of its form."""
MOST_TOLD: Final = 50
"""People who are told that they may not answer, each once."""
LONGEST_WORD: Final = 20

_YES: Final = frozenset({"yes", "y", "ok", "okay", "approve", "approved", "allow", "let"}) | LET
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
    """The Agent has made the call."""


@dataclass(frozen=True, slots=True)
class Reacted:
    """To the question. `allowed`: whether the user may answer."""

    user: str
    emoji: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class Said:
    """As an answer to the question, or in its thread."""

    user: str
    text: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline has come."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The Agent has cancelled the call, or has left."""


@dataclass(frozen=True, slots=True)
class ComputerGone:
    """There is nobody left to call."""


Input: TypeAlias = Asked | Reacted | Said | Tick | Withdrawn | ComputerGone


# ---- what is to be done -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask people. `seconds`: how long they have."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Let:
    """The call goes to the Computer."""

    by: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The Agent gets a result that says so."""

    by: str


@dataclass(frozen=True, slots=True)
class Expire:
    """Nobody has answered, and the Agent is told."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing is called any more: the Agent has taken it back, or its Computer is gone."""

    is_computer_gone: bool


@dataclass(frozen=True, slots=True)
class NotPermitted:
    """Tell the user, whose answer does not count."""

    user: str


Ending: TypeAlias = Let | Refuse | Expire | Drop
Effect: TypeAlias = Ask | Ending | NotPermitted


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


def may_approve(rule: ApprovalRule, user: str, *, administers: bool) -> bool:
    """ "approvers are users and servers; none of them: whoever may administer". Where some are named, nobody
    else may."""
    if not is_user_id(user):
        return False
    return not {user, domain(user)}.isdisjoint(rule.approvers) if rule.approvers else administers


def reaction_means(emoji: str) -> bool | None:
    """True lets the call, False refuses it; None is no answer."""
    if emoji in LET:
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
    """Once: asked again, the call is the same, and its time goes on."""
    if known.until is not None:
        return known, ()
    return replace(known, until=now + known.seconds), (Ask(known.seconds),)


def _react(known: _Known, happened: Input, now: float) -> _Next:
    assert isinstance(happened, Reacted), "the table says so"
    return _answer(known, happened, reaction_means(happened.emoji), now)


def _say(known: _Known, happened: Input, now: float) -> _Next:
    assert isinstance(happened, Said), "the table says so"
    return _answer(known, happened, text_means(happened.text), now)


def _answer(known: _Known, said: Reacted | Said, lets: bool | None, now: float) -> _Next:
    if lets is None or known.until is None:
        return known, ()
    if now >= known.until:
        return _expire(known, said, now)  # the `Tick` is on its way
    if not said.allowed:
        if said.user in known.told or len(known.told) >= MOST_TOLD:
            return known, ()
        return replace(known, told=known.told | {said.user}), (NotPermitted(said.user),)
    if lets:
        return replace(known, state=State.APPROVED), (Let(said.user),)
    return replace(known, state=State.REFUSED), (Refuse(said.user),)


def _expire(known: _Known, happened: Input, now: float) -> _Next:
    """A clock that rings early changes nothing."""
    if known.until is None or now < known.until:
        return known, ()
    return replace(known, state=State.EXPIRED), (Expire(),)


def _withdraw(known: _Known, happened: Input, now: float) -> _Next:
    dropped = Drop(is_computer_gone=isinstance(happened, ComputerGone))
    return replace(known, state=State.WITHDRAWN), (dropped,)


# What has ended has ended: nothing that comes later changes it.
_TRANSITIONS: Final[Mapping[tuple[State, type[Input]], Callable[[_Known, Input, float], _Next]]] = {
    (State.WAITING, Asked): _ask,
    (State.WAITING, Reacted): _react,
    (State.WAITING, Said): _say,
    (State.WAITING, Tick): _expire,
    (State.WAITING, Withdrawn): _withdraw,
    (State.WAITING, ComputerGone): _withdraw,
}
