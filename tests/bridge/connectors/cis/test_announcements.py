"""The registrations in rooms, and those that are missing."""

from bridge.agents.agent import Agent, AgentStatus
from bridge.connectors.cis.protocol.events import Registered, Unregistered
from bridge.connectors.cis.protocol.rooms import BroadcastRoom, FederationRoom
from bridge.connectors.cis.registrations import Announcements, registered, status_update

ALL = BroadcastRoom("here")
ALPHA = FederationRoom("alpha", "here")
WORKER = Agent("w", "here", "x", "claude", ("coding",), AgentStatus.IDLE, None, 100, 100, None)
GONE = WORKER._replace(gone_at=300, gone_reason="shutdown", sent_at=300)


def announcements() -> Announcements:
    return Announcements([ALL, ALPHA])


def said(one: Announcements, agent: Agent, *rooms: BroadcastRoom | FederationRoom) -> list[tuple[str, int]]:
    """Return the type and time of each missing event."""
    missing = one.missing(agent, rooms)
    for room, event in missing:
        one.read(room, event)
    return [(type(event).__name__, event.sent_at) for _, event in missing]


def test_an_agent_is_registered_once() -> None:
    """And unregistered once when it goes offline, with the reason."""
    one = announcements()
    [(room, event)] = one.missing(WORKER, [ALL])
    assert room is ALL
    assert event == registered(WORKER)
    assert said(one, WORKER, ALL) == [("Registered", 100)]
    assert said(one, WORKER, ALL) == []
    assert one.agents() == {"w"}
    [(_, gone)] = one.missing(GONE, [ALL])
    assert isinstance(gone, Unregistered)
    assert (gone.reason, gone.sent_at) == ("shutdown", 300)
    assert said(one, GONE, ALL) == [("Unregistered", 300)]
    assert said(one, GONE, ALL) == []
    assert one.agents() == set()
    assert said(announcements(), GONE, ALL) == []


def test_a_new_registration_is_newer_than_the_unregistration() -> None:
    """Also if the clock was put back: otherwise peers would ignore it."""
    one = announcements()
    said(one, WORKER, ALL)
    said(one, GONE, ALL)
    back = WORKER._replace(sent_at=50, registered_at=50)
    assert said(one, back, ALL) == [("Registered", 301)]


def test_only_a_changed_description_is_registered_again() -> None:
    """A changed status is not part of it."""
    one = announcements()
    said(one, WORKER, ALL)
    busy = WORKER._replace(status=AgentStatus.BUSY, current_task="t", sent_at=150)
    assert said(one, busy, ALL) == []
    assert said(one, busy._replace(capabilities=("coding", "review")), ALL) == [("Registered", 150)]


def test_an_agent_moves_to_other_namespaces() -> None:
    """It is first unregistered, then registered with a newer time: a node that reads both rooms ends with it
    online."""
    one = announcements()
    said(one, WORKER, ALL)
    missing = one.missing(WORKER, [ALPHA])
    (left, gone), (entered, come) = missing
    assert (left, entered) == (ALL, ALPHA)
    assert isinstance(gone, Unregistered)
    assert gone.reason == "moved"
    assert isinstance(come, Registered)
    assert come.sent_at > gone.sent_at
    said(one, WORKER, ALPHA)
    assert said(one, WORKER, ALPHA) == []


def test_entries_are_read_in_any_order() -> None:
    """At equal times, the unregistration counts."""
    first, last = registered(WORKER), Unregistered(
        agent_id="w", node_id="here", reason=None, timestamp=registered(GONE).timestamp
    )  # fmt: skip
    for entries in ([first, last], [last, first]):
        one = announcements()
        for entry in entries:
            one.read(ALL, entry)
        assert one.agents() == set()
    again = registered(WORKER, after=300)
    for entries in ([again, last, first], [first, last, again], [last, again, first]):
        one = announcements()
        for entry in entries:
            one.read(ALL, entry)
        assert one.agents() == {"w"}
    same = registered(WORKER._replace(sent_at=300, registered_at=300))
    for pair in ([same, last], [last, same]):
        one = announcements()
        for entry in pair:
            one.read(ALL, entry)
        assert one.agents() == set()


def test_any_runtime_can_be_registered() -> None:
    """Other connectors choose their names freely. The result is stable, so that it does not count as
    changed."""
    one = announcements()
    for runtime in ("", "opencode", "x" * 300, " a\nb ", "\0"):
        agent = WORKER._replace(agent_id=f"w{len(runtime)}", runtime=runtime)
        assert said(one, agent, ALL) == [("Registered", 100)]
        assert said(one, agent, ALL) == []
    assert registered(WORKER._replace(runtime="")).runtime_type == "unknown"


def test_a_status_update() -> None:
    """It has the time of the status."""
    busy = WORKER._replace(status=AgentStatus.BUSY, current_task="t", sent_at=150)
    event = status_update(busy)
    assert (event.agent, event.status, event.current_task, event.sent_at) == (busy.address, AgentStatus.BUSY, "t", 150)
