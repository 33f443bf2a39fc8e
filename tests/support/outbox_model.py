"""A model of a destination's surroundings: Postgres, the sender, and a peer that stages PDUs."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from federation.outbox.destination import MAX_EDUS, MAX_PDUS, Destination, State
from federation.outbox.messages import (
    Backlog,
    Effect,
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
from federation.outbox.send_failure import Failure, FailureKind
from federation.outbox.send_queue import LOAD, EduRef, PduRef

ROOMS = ("!a", "!b", "!c")
START = 10**12


@dataclass
class OutboxModel:
    chance: Random
    machine: Destination = field(default_factory=Destination)
    now: int = START
    position: int = 0

    # Postgres.
    pdus: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    edus: list[int] = field(default_factory=list)
    outage: Outage | None = None

    # The shell: what it has to answer, and what is in flight.
    answers: list[Callable[[], Input]] = field(default_factory=list)
    sent: Send | None = None
    in_flight: Send | None = None
    """As `sent`, but also while it waits to be sent again."""
    numbers: dict[int, Send] = field(default_factory=dict)

    # The peer.
    staged: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    has: set[int] = field(default_factory=set)
    order: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    is_up: bool = True
    is_ours: bool = False
    rate: int = 10
    credit: int = 0
    objects_to: set[int] = field(default_factory=set)

    # What became of everything.
    queued: set[int] = field(default_factory=set)
    gone: dict[int, RemovalReason | str] = field(default_factory=dict)
    seen: set[tuple[State, type[Input], State]] = field(default_factory=set)

    def tell(self, message: Input) -> None:
        before = self.machine.state
        effects = self.machine.receive(message, self.now)
        self.seen.add((before, type(message), self.machine.state))
        for effect in effects:
            self.carry_out(effect)
        assert (self.sent is not None) == (self.machine.state is State.SENDING), "one transaction at a time"

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                assert self.sent is None
                assert len(effect.pdus) <= MAX_PDUS
                assert len(effect.edus) <= MAX_EDUS
                assert effect.pdus or effect.edus
                assert self.numbers.setdefault(effect.number, effect) == effect, "the same number, the same content"
                self.sent = self.in_flight = effect
            case Remove():
                if effect.reason is not RemovalReason.STALE:
                    self.in_flight = None
                for pdu in effect.pdus:
                    if pdu.position in self.pdus[pdu.room_id]:
                        self.pdus[pdu.room_id].remove(pdu.position)
                for edu in effect.edus:
                    if edu.position in self.edus:
                        self.edus.remove(edu.position)
                for one in (*effect.pdus, *effect.edus):
                    assert one.position not in self.gone, "nothing leaves the queue twice"
                    self.gone[one.position] = effect.reason
            case Load(lane=lane):
                self.answers.append(
                    lambda: LoadResult(lane, tuple((self.edus if lane is None else self.pdus[lane])[:LOAD]))
                )
            case Survey():
                self.answers.append(
                    lambda: SurveyResult(
                        tuple(Backlog(room, len(all_), all_[-1]) for room, all_ in self.pdus.items() if all_)
                    )
                )
            case Skip(room_id=room_id, keep=keep):
                flying = {pdu.position for pdu in self.in_flight.pdus} if self.in_flight else set()
                for position in [one for one in self.pdus[room_id] if one < keep]:
                    self.pdus[room_id].remove(position)
                    if position not in flying:
                        self.gone[position] = "skipped"
            case Probe(room_id=room_id, position=position):
                self.answers.append(lambda: ProbeResult(room_id, position, self.is_up and position in self.has))
            case StoreOutage(outage=outage):
                self.outage = outage

    # ---- what happens --------------------------------------------------------------------------------

    def queue(self, most: int) -> None:
        pdus, edus = [], []
        for _ in range(self.chance.randrange(most)):
            self.position += 1
            self.queued.add(self.position)
            kind = self.chance.random()
            if kind < 0.9:
                room = self.chance.choice(ROOMS)
                pdus.append(PduRef(self.position, room))
                self.pdus[room].append(self.position)
            else:
                edus.append(EduRef(self.position, ephemeral=kind < 0.95))
                if kind >= 0.95:
                    self.edus.append(self.position)
        if self.chance.random() < 0.02:
            self.objects_to.add(self.position)
        self.tell(QueuedItems(tuple(pdus), tuple(edus)))

    def answer_transaction(self) -> None:
        if self.sent is None:
            return
        sent, self.sent = self.sent, None
        positions = {one.position for one in (*sent.pdus, *sent.edus)}
        if not self.is_up:
            if self.chance.random() < 0.2:
                self.receive(sent)  # and the answer got lost
            self.tell(TransactionFailure(Failure(FailureKind.AWAY), self.chance.random()))
        elif positions & self.objects_to:
            self.tell(TransactionFailure(Failure(FailureKind.OBJECTED), self.chance.random()))
        elif self.chance.random() < 0.05:
            after = self.chance.choice([None, 1_000])
            self.tell(TransactionFailure(Failure(FailureKind.BUSY, after), self.chance.random()))
        else:
            self.receive(sent)
            self.tell(TransactionSuccess(processed=self.is_ours))

    def receive(self, sent: Send) -> None:
        for pdu in sent.pdus:
            if pdu.position not in self.has and pdu.position not in self.staged[pdu.room_id]:
                self.staged[pdu.room_id].append(pdu.position)
        assert all(len(waiting) < 100 for waiting in self.staged.values()), "a Synapse would throw them away"
        if self.is_ours:
            self.work_off(1_000)

    def work_off(self, most: int) -> None:
        for room, waiting in self.staged.items():
            for position in waiting[:most]:
                self.has.add(position)
                self.order[room].append(position)
            del waiting[:most]

    def pass_time(self, milliseconds: int) -> None:
        """Advance the clock: timers fire, and the peer works at its slowest, ten PDUs a second in each
        room."""
        end = self.now + milliseconds
        while self.now < end:
            deadline = self.machine.deadline()
            # Timers may ring late.
            late = self.chance.choice([0, 0, 30])
            at = end if deadline is None else max(self.now + 1, deadline + late)
            self.advance(min(at, end))
            if deadline is not None and deadline <= self.now:
                self.tell(Timer())
            while self.answers and self.chance.random() < 0.9:
                self.answer()

    def advance(self, to: int) -> None:
        self.credit += (to - self.now) * self.rate
        self.now = to
        self.work_off(self.credit // 1_000)
        # A room in which nothing waits saves nothing up for later.
        self.credit %= 1_000

    def answer(self) -> None:
        if self.answers:
            self.tell(self.answers.pop(0)())

    def restart(self) -> None:
        """Kill the process: its memory is lost, with ephemeral EDUs and with what was skipped while it was in
        flight."""
        self.answers.clear()
        self.sent = self.in_flight = None
        self.numbers.clear()
        kept = set(self.edus).union(*self.pdus.values())
        for position in self.queued - set(self.gone) - kept:
            self.gone[position] = "lost with the process"
        self.machine = Destination(self.outage)

    def live(self) -> None:
        self.is_ours = self.chance.random() < 0.2
        self.rate = self.chance.choice([10, 50, 200])
        for _ in range(200):
            kind = self.chance.random()
            if kind < 0.25:
                self.queue(self.chance.choice([3, 40, 150]))
            elif kind < 0.5:
                self.answer_transaction()
            elif kind < 0.65:
                self.answer()
            elif kind < 0.7:
                self.is_up = not self.is_up
            elif kind < 0.75:
                self.tell(PeerRequest())
            elif kind < 0.8:
                self.signs()
            elif kind < 0.82:
                self.restart()
            elif kind < 0.84:
                self.pass_time(self.chance.choice([3_600_000, 10_000_000]))
            elif kind < 0.86:
                self.tell(Timer())
            else:
                self.pass_time(self.chance.choice([50, 1_000, 10_000]))

    def signs(self) -> None:
        room = self.chance.choice(ROOMS)
        if self.order[room]:
            self.tell(PeerProgress(room, self.order[room][-1]))

    def settle(self) -> None:
        """Let the peer recover and wait until nothing is pending."""
        self.is_up = True
        for _ in range(3_000):
            while self.answers:
                self.answer()
            self.answer_transaction()
            deadline = self.machine.deadline()
            if self.machine.state is State.IDLE and not self.answers:
                return
            if self.sent is None and deadline is not None and not self.answers:
                self.advance(max(self.now + 1, deadline))
                self.tell(Timer())
        raise AssertionError(f"it never came to rest: {self.machine.view()}")

    def check(self) -> None:
        assert self.queued == set(self.gone), "everything that was queued came to its end"
        self.work_off(1_000)
        delivered = {position for position, reason in self.gone.items() if reason is RemovalReason.DELIVERED}
        for room in ROOMS:
            assert self.order[room] == sorted(set(self.order[room])), "once, and in order"
            assert not self.pdus[room]
        assert not self.edus
        refused = {position for position, reason in self.gone.items() if reason is RemovalReason.OBJECTED}
        assert refused <= self.objects_to
        assert delivered
