"""When a peer gets the list of local agents."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.registrations import MIN_INTERVAL_MS, Introductions

NOW = 10**12


def test_once_when_a_peer_first_appears() -> None:
    """Registrations of its other agents, and its answer, are not answered again: the exchange ends after one
    round."""
    introductions = Introductions()
    assert introductions.registered("kitchen.local", NOW)
    assert not introductions.registered("kitchen.local", NOW)
    assert not introductions.registered("kitchen.local", NOW + 10 * MIN_INTERVAL_MS)
    assert introductions.registered("living.local", NOW)
    assert introductions.deadline() is None


def test_again_when_it_was_offline() -> None:
    """It may have lost what it knew."""
    introductions = Introductions()
    introductions.registered("kitchen.local", NOW)
    introductions.lost("kitchen.local")
    assert introductions.registered("kitchen.local", NOW + MIN_INTERVAL_MS)
    assert not introductions.registered("kitchen.local", NOW + MIN_INTERVAL_MS)


def test_at_most_once_a_minute() -> None:
    """A peer that goes offline and returns gets its answer when the minute is over, if it is still online."""
    introductions = Introductions()
    introductions.registered("kitchen.local", NOW)
    introductions.lost("kitchen.local")
    assert not introductions.registered("kitchen.local", NOW + 1)
    assert not introductions.registered("kitchen.local", NOW + 2)
    assert introductions.deadline() == NOW + MIN_INTERVAL_MS
    assert introductions.due(NOW + MIN_INTERVAL_MS - 1) == ()
    assert introductions.due(NOW + MIN_INTERVAL_MS) == ("kitchen.local",)
    assert introductions.due(NOW + MIN_INTERVAL_MS) == ()
    assert introductions.deadline() is None
    introductions.lost("kitchen.local")
    introductions.registered("kitchen.local", NOW + MIN_INTERVAL_MS + 1)
    introductions.lost("kitchen.local")
    assert introductions.deadline() is None
    assert introductions.due(NOW + 5 * MIN_INTERVAL_MS) == ()


def test_losing_an_unknown_peer_does_nothing() -> None:
    """It is introduced like any new peer."""
    introductions = Introductions()
    introductions.lost("kitchen.local")
    assert introductions.registered("kitchen.local", NOW)


def test_the_number_of_remembered_peers_is_limited() -> None:
    """The oldest introduction is dropped; a flood of new names is not answered."""
    introductions = Introductions(max_peers=2)
    assert introductions.registered("a", NOW)
    assert introductions.registered("b", NOW + 1)
    assert not introductions.registered("c", NOW + 2)
    assert introductions.registered("c", NOW + MIN_INTERVAL_MS)
    assert len(introductions) == 2
    assert not introductions.registered("b", NOW + MIN_INTERVAL_MS)


@given(
    st.lists(st.tuples(st.sampled_from(["registered", "lost", "due"]), st.sampled_from("ab"), st.integers(0, 40_000)))
)
def test_two_nodes_that_answer_each_other_stop(steps: list[tuple[str, str, int]]) -> None:
    """In any sequence of events, two answers to a peer are at least a minute apart, and a pending answer has
    a deadline."""
    introductions, now = Introductions(), NOW
    answered: dict[str, int] = {}
    for step, peer, passed in steps:
        now += passed
        told = ()
        if step == "lost":
            introductions.lost(peer)
        elif step == "registered":
            told = (peer,) if introductions.registered(peer, now) else ()
        else:
            told = introductions.due(now)
            assert (introductions.deadline() or now + 1) > now
        for one in told:
            assert now - answered.get(one, 0) >= MIN_INTERVAL_MS
            answered[one] = now
