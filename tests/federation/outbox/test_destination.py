"""The state machine of a destination: each state with each input, and random histories against a model."""

import random
from collections import Counter
from typing import Any, get_args

import pytest

from federation.outbox.destination import MAX_BACKLOG, MAX_EDUS, MAX_PDUS, MAX_REFUSALS, Destination, State
from federation.outbox.messages import (
    Backlog,
    Input,
    Load,
    LoadResult,
    Outage,
    PeerProgress,
    PeerRequest,
    Probe,
    ProbeResult,
    QueuedItems,
    RemovalReason,
    Remove,
    Send,
    Skip,
    StoreOutage,
    Survey,
    SurveyResult,
    Timer,
    TransactionFailure,
    TransactionSuccess,
)
from federation.outbox.pacing import FIRST_AFTER_START, PROBE_PRECEDENCE_MS, WINDOW
from federation.outbox.retry_schedule import OUTAGE_MS
from federation.outbox.send_failure import Failure, FailureKind
from federation.outbox.send_queue import EduRef, PduRef
from tests.support.outbox_model import OutboxModel

NOW = 10**12
ROOM = "!r:us.test"


def pdus(*positions: int, room: str = ROOM) -> tuple[PduRef, ...]:
    return tuple(PduRef(position, room) for position in positions)


def failed(kind: FailureKind = FailureKind.AWAY, after: int | None = None) -> TransactionFailure:
    return TransactionFailure(Failure(kind, after), jitter=0.5)


def idle() -> Destination:
    """Started ten seconds ago, with an empty queue."""
    machine = Destination()
    assert machine.receive(Timer(), NOW - 10_000) == [Survey()]
    assert machine.receive(SurveyResult(), NOW - 10_000) == [Load(None)]
    assert machine.receive(LoadResult(None, ()), NOW - 10_000) == []
    return machine


def sending(count: int = 1) -> Destination:
    machine = idle()
    [send] = machine.receive(QueuedItems(pdus(*range(1, count + 1))), NOW)
    assert isinstance(send, Send)
    return machine


def paced() -> Destination:
    """The window of the room is full, and ten more events are queued."""
    machine = sending(WINDOW + 10)
    machine.receive(TransactionSuccess(), NOW)
    machine.receive(TransactionSuccess(), NOW)
    return machine


def backing_off() -> Destination:
    machine = sending()
    machine.receive(failed(), NOW)
    return machine


def surveying() -> Destination:
    machine = Destination()
    machine.receive(Timer(), NOW)
    return machine


IN_STATE = {
    State.IDLE: idle,
    State.PACED: paced,
    State.SENDING: sending,
    State.BACKING_OFF: backing_off,
    State.SURVEYING: surveying,
}
INPUTS: dict[type[Any], Input] = {
    type(one): one
    for one in (
        QueuedItems(pdus(900)),
        LoadResult(None, (5,)),
        SurveyResult((Backlog(ROOM, 2, 9),)),
        TransactionSuccess(),
        failed(),
        PeerRequest(),
        PeerProgress(ROOM, 1),
        ProbeResult(ROOM, 1, has_it=True),
        Timer(),
    )
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", get_args(Input), ids=lambda kind: kind.__name__)
def test_every_state_and_every_input(state: State, kind: type[Input]) -> None:
    """The transition table defines where each input leads; an input that it lacks is a bug of the sender."""
    machine = IN_STATE[state]()
    assert machine.state is state
    transition = Destination.TRANSITIONS.get((state, kind))
    if transition is None:
        with pytest.raises(AssertionError, match="unexpected input"):
            machine.receive(INPUTS[kind], NOW + 1)
        assert machine.state is state
    else:
        machine.receive(INPUTS[kind], NOW + 1)
        assert machine.state in transition.to


def test_the_transitions_that_the_table_lacks() -> None:
    """A response follows a transaction, and a survey result follows a survey."""
    missing = {(state, kind) for state in State for kind in get_args(Input)} - set(Destination.TRANSITIONS)
    assert missing == {
        *(
            (state, kind)
            for state in State
            if state is not State.SENDING
            for kind in (TransactionSuccess, TransactionFailure)
        ),
        *((state, SurveyResult) for state in State if state is not State.SURVEYING),
    }


def test_queued_items_are_sent_at_once() -> None:
    """More items collect while a transaction is in flight."""
    machine = idle()
    assert machine.receive(QueuedItems(pdus(1), (EduRef(2), EduRef(3, ephemeral=True))), NOW) == [
        Send(1, pdus(1), (EduRef(2), EduRef(3, ephemeral=True)))
    ]
    assert machine.receive(QueuedItems(pdus(4)), NOW) == []
    assert machine.receive(QueuedItems(pdus(5)), NOW) == []
    assert machine.receive(TransactionSuccess(), NOW) == [
        Remove(pdus(1), (EduRef(2), EduRef(3, ephemeral=True)), RemovalReason.DELIVERED),
        Send(2, pdus(4, 5), ()),
    ]
    assert machine.receive(TransactionSuccess(), NOW) == [Remove(pdus(4, 5), (), RemovalReason.DELIVERED)]
    assert machine.state is State.IDLE
    assert machine.deadline() is None


def test_a_single_event_is_sent_at_once() -> None:
    """After a failure the same transaction is sent again, and the pace of the room applies."""
    alone = idle()
    for number in range(1, 4):
        effects = alone.receive(QueuedItems(pdus(number)), NOW)
        assert effects == [Send(number, pdus(number), ())]
        assert alone.receive(TransactionSuccess(processed=True), NOW) == [
            Remove(pdus(number), (), RemovalReason.DELIVERED)
        ]
        assert alone.state is State.IDLE
    alone.receive(QueuedItems(pdus(4)), NOW)
    assert alone.receive(QueuedItems(pdus(5)), NOW) == []
    alone.receive(failed(), NOW)
    assert alone.receive(Timer(), NOW + 5_000) == [Send(4, pdus(4), ())]
    spent = sending(WINDOW)
    spent.receive(TransactionSuccess(), NOW)
    spent.receive(TransactionSuccess(), NOW)
    assert spent.state is State.IDLE
    assert spent.receive(QueuedItems(pdus(1_000)), NOW) == []
    assert spent.state is State.PACED


def test_a_transaction_has_at_most_fifty_and_a_hundred() -> None:
    """Server-server API, "Transactions": "A Transaction […] is limited in size: it can have at most 50 PDUs
    and 100 EDUs." """
    machine = sending()
    rooms = [PduRef(at, f"!{at}") for at in range(10, 130)]
    machine.receive(QueuedItems(tuple(rooms), tuple(EduRef(at) for at in range(200, 290))), NOW)
    machine.receive(QueuedItems((), tuple(EduRef(at, ephemeral=True) for at in range(300, 360))), NOW)
    _, send = machine.receive(TransactionSuccess(), NOW)
    assert isinstance(send, Send)
    assert (len(send.pdus), len(send.edus)) == (MAX_PDUS, MAX_EDUS)
    assert send.pdus == tuple(rooms[:50])


def test_a_failed_transaction_is_repeated_unchanged() -> None:
    """The peer may have processed it. The same number makes it the same transaction."""
    machine = sending()
    first = Send(1, pdus(1), ())
    assert machine.receive(failed(), NOW) == [StoreOutage(Outage(NOW, 1, NOW + 5_000))]
    assert machine.deadline() == NOW + 5_000
    assert machine.receive(QueuedItems(pdus(2)), NOW) == []
    assert machine.receive(Timer(), NOW + 4_999) == []
    assert machine.receive(Timer(), NOW + 5_000) == [first]
    assert machine.receive(failed(), NOW + 5_000) == [StoreOutage(Outage(NOW, 2, NOW + 15_000))]
    assert machine.receive(Timer(), NOW + 15_000) == [first]
    assert machine.receive(TransactionSuccess(), NOW + 15_000) == [
        Remove(pdus(1), (), RemovalReason.DELIVERED),
        StoreOutage(None),
        Send(2, pdus(2), ()),
    ]


def test_a_request_from_the_peer_triggers_a_retry() -> None:
    """But attempts are at least five seconds apart: the peer may reach this server without being
    reachable."""
    machine = sending()
    machine.receive(failed(), NOW)
    machine.receive(Timer(), NOW + 5_000)
    machine.receive(failed(), NOW + 5_000)
    assert machine.deadline() == NOW + 15_000
    assert machine.receive(PeerRequest(), NOW + 5_001) == []
    assert machine.deadline() == NOW + 10_000
    assert machine.receive(PeerRequest(), NOW + 11_000) == [Send(1, pdus(1), ())]
    assert machine.receive(failed(), NOW + 11_000) == [StoreOutage(Outage(NOW, 1, NOW + 16_000))]


def test_retry_after_of_a_busy_server_is_respected() -> None:
    """Even if it sends requests meanwhile. Being busy is not an outage."""
    machine = sending()
    assert machine.receive(failed(FailureKind.BUSY, 30_000), NOW) == []
    assert machine.receive(PeerRequest(), NOW + 20_000) == []
    assert machine.deadline() == NOW + 30_000
    assert machine.receive(Timer(), NOW + 30_000) == [Send(1, pdus(1), ())]
    machine.receive(failed(), NOW + 30_000)
    machine.receive(Timer(), NOW + 40_000)
    assert machine.receive(failed(FailureKind.BUSY), NOW + 40_000) == [StoreOutage(None)]


def test_a_refused_event_is_found_by_bisection_and_dropped() -> None:
    """The others are delivered, and later transactions grow again."""
    bad = 6
    machine = idle()
    effects = machine.receive(QueuedItems(pdus(*range(1, 9))), NOW)
    reasons: dict[int, RemovalReason] = {}
    tries = 0
    while machine.state is State.SENDING:
        for effect in effects:
            if isinstance(effect, Remove):
                reasons |= {pdu.position: effect.reason for pdu in effect.pdus}
        [send] = [effect for effect in effects if isinstance(effect, Send)]
        tries += 1
        objected = any(pdu.position == bad for pdu in send.pdus)
        effects = machine.receive(failed(FailureKind.OBJECTED) if objected else TransactionSuccess(), NOW)
    for effect in effects:
        assert isinstance(effect, Remove)
        reasons |= {pdu.position: effect.reason for pdu in effect.pdus}
    assert reasons == {at: RemovalReason.OBJECTED if at == bad else RemovalReason.DELIVERED for at in range(1, 9)}
    assert tries <= 9


def test_a_peer_that_refuses_everything_is_unavailable() -> None:
    """Only a few events are dropped before it is treated as an outage."""
    machine = idle()
    effects = machine.receive(QueuedItems(pdus(*range(1, 60))), NOW)
    given_up = 0
    while machine.state is State.SENDING:
        given_up += sum(isinstance(effect, Remove) for effect in effects)
        effects = machine.receive(failed(FailureKind.OBJECTED), NOW)
    assert given_up == MAX_REFUSALS
    assert effects == [StoreOutage(Outage(NOW, 1, NOW + 5_000))]


def test_a_room_is_paced() -> None:
    """At most eighty events are in flight; more follow those that the peer has processed, or is assumed to
    have processed. Other rooms are not delayed."""
    machine = idle()
    [first] = machine.receive(QueuedItems(pdus(*range(WINDOW + 10))), NOW)
    assert isinstance(first, Send)
    effects = machine.receive(TransactionSuccess(), NOW)
    [second] = [effect for effect in effects if isinstance(effect, Send)]
    assert len(first.pdus) + len(second.pdus) == WINDOW
    effects = machine.receive(TransactionSuccess(), NOW)
    assert machine.state is State.PACED
    [elsewhere] = machine.receive(QueuedItems(pdus(500, room="!other")), NOW)
    assert elsewhere == Send(3, pdus(500, room="!other"), ())
    machine.receive(TransactionSuccess(), NOW)
    assert machine.state is State.PACED
    assert machine.deadline() == NOW + 200
    machine.receive(Timer(), NOW + 200)
    assert machine.deadline() == NOW + 1_000 + PROBE_PRECEDENCE_MS
    [third] = machine.receive(Timer(), NOW + 1_000 + PROBE_PRECEDENCE_MS)
    assert isinstance(third, Send)
    assert third.pdus == pdus(*range(WINDOW, WINDOW + 10))


def test_a_successful_probe_lets_more_events_be_sent() -> None:
    """They are sent at once."""
    machine = sending(WINDOW + 10)
    assert machine.deadline() is None
    machine.receive(TransactionSuccess(), NOW)
    # Half of the window is staged and more is queued: a probe is due soon, while the next events are sent.
    assert machine.deadline() == NOW + 200
    [probe] = machine.receive(Timer(), NOW + 200)
    assert isinstance(probe, Probe)
    machine.receive(TransactionSuccess(), NOW + 200)
    assert machine.receive(ProbeResult(ROOM, probe.position, has_it=False), NOW + 200) == []
    assert machine.state is State.PACED
    assert machine.deadline() == NOW + 400
    [again] = machine.receive(Timer(), NOW + 400)
    assert isinstance(again, Probe)
    [send] = machine.receive(ProbeResult(ROOM, again.position, has_it=True), NOW + 450)
    assert isinstance(send, Send)
    assert send.pdus == pdus(*range(WINDOW + 1, WINDOW + 11))


def test_few_events_are_sent_right_after_a_start() -> None:
    """A full window may have been sent just before the restart."""
    machine = Destination()
    machine.receive(Timer(), NOW)
    machine.receive(SurveyResult((Backlog(ROOM, 90, 90),)), NOW)
    machine.receive(LoadResult(ROOM, tuple(range(1, 91))), NOW)
    [send, *_] = machine.receive(LoadResult(None, ()), NOW)
    assert isinstance(send, Send)
    assert len(send.pdus) == FIRST_AFTER_START
    assert WINDOW + FIRST_AFTER_START < 100


def test_progress_of_the_peer_lets_more_events_be_sent() -> None:
    """Progress is an event of the peer that refers to ours, or a receipt."""
    machine = paced()
    [send] = machine.receive(PeerProgress(ROOM, 40), NOW)
    assert isinstance(send, Send)


def test_a_peer_that_responds_after_processing_is_not_paced() -> None:
    """Palaver nodes do so."""
    machine = idle()
    effects = machine.receive(QueuedItems(pdus(*range(100))), NOW)
    sent = 0
    while machine.state is State.SENDING:
        [send] = [effect for effect in effects if isinstance(effect, Send)]
        sent += len(send.pdus)
        effects = machine.receive(TransactionSuccess(processed=True), NOW)
    assert sent == 100
    assert machine.state is State.IDLE


def long_outage() -> tuple[Destination, int]:
    """Unreachable for more than an hour, with a transaction in flight."""
    machine = sending()
    now = NOW
    while now < NOW + OUTAGE_MS or machine.state is not State.BACKING_OFF:
        if machine.state is State.SENDING:
            machine.receive(failed(), now)
        else:
            deadline = machine.deadline()
            assert deadline is not None
            now = deadline
            machine.receive(Timer(), now)
    return machine, now


def test_ephemeral_edus_are_dropped_in_an_outage() -> None:
    """Everything else stays in Postgres and is not held in memory."""
    machine, now = long_outage()
    typing = EduRef(9, ephemeral=True)
    assert machine.receive(QueuedItems(pdus(7, 8), (typing, EduRef(10))), now) == [
        Remove((), (typing,), RemovalReason.STALE)
    ]
    assert machine.view().catching_up
    earlier = sending()
    earlier.receive(QueuedItems((), (typing,)), NOW)
    earlier.receive(failed(), NOW)
    assert earlier.receive(Timer(), NOW + 2 * OUTAGE_MS) == [Send(1, pdus(1), ())]
    effects = earlier.receive(failed(), NOW + 2 * OUTAGE_MS)
    assert effects[1:] == [Remove((), (typing,), RemovalReason.STALE)]


def test_an_ephemeral_edu_that_starts_a_sender_is_sent() -> None:
    """It arrives before the queue has been counted, and the server is not known to fail."""
    machine, typing = Destination(), EduRef(9, ephemeral=True)
    assert machine.receive(QueuedItems((), (typing,)), NOW) == []
    assert machine.receive(Timer(), NOW) == [Survey()]
    receipt = EduRef(10, ephemeral=True)
    assert machine.receive(QueuedItems((), (receipt,)), NOW) == []
    effects = machine.receive(SurveyResult(), NOW)
    assert Send(1, (), (typing, receipt)) in effects


def test_after_an_outage_the_queue_is_counted() -> None:
    """The transaction in flight is sent first and unchanged; a short queue is sent completely, of a long
    one the newest event."""
    machine, now = long_outage()
    machine.receive(QueuedItems(pdus(700, room="!new")), now)
    assert machine.receive(PeerRequest(), now + 10_000) == [Survey()]
    assert machine.receive(QueuedItems(pdus(701, room="!newest")), now + 10_000) == []
    short, long = Backlog("!short", MAX_BACKLOG, 600), Backlog("!long", MAX_BACKLOG + 1, 690)
    counted = SurveyResult((short, long, Backlog(ROOM, 1, 1), Backlog("!new", 1, 700)))
    effects = machine.receive(counted, now + 10_000)
    assert effects[0] == Skip("!long", 690)
    lanes = [effect.lane for effect in effects if isinstance(effect, Load)]
    assert Counter(lanes) == Counter(["!short", "!long", ROOM, "!new", "!newest", None])
    assert effects[-1] == Send(1, pdus(1), ())
    for lane, positions in (("!long", (690,)), (ROOM, (1,)), ("!new", (700,)), (None, ())):
        assert machine.receive(LoadResult(lane, positions), now + 10_001) == []
    assert machine.receive(TransactionSuccess(), now + 10_002) == [
        Remove(pdus(1), (), RemovalReason.DELIVERED),
        StoreOutage(None),
        Send(2, (*pdus(690, room="!long"), *pdus(700, room="!new")), ()),
    ]


def test_a_restart_resumes() -> None:
    """The stored outage is respected. Nothing is sent before the oldest items of each room are loaded: so
    the first transaction is the one that was in flight, unless more was queued since."""
    machine = Destination(Outage(NOW - 5, 3, NOW + 20_000))
    assert machine.deadline() == NOW + 20_000
    assert machine.receive(Timer(), NOW) == []
    assert machine.receive(Timer(), NOW + 20_000) == [Survey()]
    counted = SurveyResult((Backlog(ROOM, 2, 4), Backlog("!other", 1, 3)))
    assert machine.receive(counted, NOW + 20_000) == [Load(ROOM), Load("!other"), Load(None)]
    assert machine.receive(LoadResult(ROOM, (1, 4)), NOW + 20_000) == []
    assert machine.receive(LoadResult(None, (2,)), NOW + 20_000) == []
    [send] = machine.receive(LoadResult("!other", (3,)), NOW + 20_000)
    assert send == Send(1, (*pdus(1), *pdus(3, room="!other"), *pdus(4)), (EduRef(2),))


def test_the_view_of_a_destination() -> None:
    """`palaver queue` shows it."""
    machine = sending(3)
    view = machine.view()
    assert (view.state, view.catching_up, view.retry_at) == (State.SENDING, False, None)
    assert view.in_flight == Send(1, pdus(1, 2, 3), ())
    machine.receive(failed(), NOW)
    view = machine.view()
    assert (view.failures, view.failing_since, view.retry_at) == (1, NOW, NOW + 5_000)
    assert surveying().view().catching_up


Seen = set[tuple[State, type[Input], State]]


def receive(machine: Destination, message: Input, at: int = NOW + 1) -> tuple[State, type[Input], State]:
    before = machine.state
    machine.receive(message, at)
    return before, type(message), machine.state


def scripted() -> Seen:
    """Return the transitions of each input in each state, and those that random histories rarely reach."""
    seen = {receive(IN_STATE[state](), INPUTS[kind]) for state, kind in Destination.TRANSITIONS}
    full = sending(WINDOW)
    full.receive(TransactionSuccess(), NOW)
    full.receive(TransactionSuccess(), NOW)
    return seen | {
        receive(full, QueuedItems(pdus(500))),
        receive(sending(), failed(FailureKind.OBJECTED)),
        receive(loading(), LoadResult(ROOM, positions(101, 131)), NOW + 60_000),
        receive(loading_the_rest(), LoadResult(ROOM, positions(101, 131))),
    }


def positions(start: int, end: int) -> tuple[int, ...]:
    return tuple(range(start, end))


def loading() -> Destination:
    """The room's window is full, and its queued events are being loaded."""
    machine = idle()
    machine.receive(QueuedItems(pdus(*range(1, 131))), NOW)
    machine.receive(TransactionSuccess(), NOW)
    machine.receive(TransactionSuccess(), NOW)
    return machine


def loading_the_rest() -> Destination:
    """As `loading`, but all held events of the room have been sent."""
    machine = loading()
    machine.receive(PeerProgress(ROOM, 25), NOW)
    machine.receive(TransactionSuccess(), NOW)
    return machine


def test_random_histories_against_a_model() -> None:
    """With a model of Postgres and of Synapse, and with random failures, restarts and outages, each event
    is delivered once and in order, or is skipped, refused or stale; never are too many events of a room in
    flight; and each transition in the table occurs."""
    seen = scripted()
    for seed in range(60):
        model = OutboxModel(random.Random(seed))
        model.live()
        model.settle()
        model.check()
        seen |= model.seen
    promised = {
        (state, kind, to) for (state, kind), transition in Destination.TRANSITIONS.items() for to in transition.to
    }
    assert seen == promised
