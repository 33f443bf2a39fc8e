"""Which servers this server federates with."""

from dataclasses import replace

from federation.peers.policy import policy


def test_a_closed_policy_admits_only_configured_servers() -> None:
    """The default. Names are compared without regard to case, and with their port."""
    closed = policy(["Kitchen.local", "cellar.local:7676"], is_open=False)
    assert closed.admits("kitchen.LOCAL")
    assert closed.admits("cellar.local:7676")
    assert not closed.admits("cellar.local")
    assert not closed.admits("attic.local")


def test_an_open_policy_admits_all_but_refused_servers() -> None:
    """Refused servers are refused in both modes, even if they are configured."""
    is_open = policy([], is_open=True, refused=["*.evil.example", "bad.example"])
    assert is_open.admits("attic.local")
    assert not is_open.admits("a.EVIL.example")
    assert not is_open.admits("bad.example")
    assert not policy(["bad.example"], is_open=False, refused=["bad.*"]).admits("bad.example")


def test_servers_are_added_and_distrusted_at_runtime() -> None:
    """An added server is admitted immediately; a distrusted one is always refused."""
    added, distrusted = {"attic.local"}, {"cellar.local"}
    closed = replace(policy(["cellar.local"], is_open=False), added=added, distrusted=distrusted)
    is_open = replace(policy([], is_open=True, refused=["attic.*"]), added=added, distrusted=distrusted)
    assert (closed.admits("ATTIC.local"), closed.admits("Cellar.local")) == (True, False)
    assert (is_open.admits("attic.local"), is_open.admits("Cellar.local")) == (False, False)
    added.clear()
    distrusted.clear()
    assert (closed.admits("attic.local"), closed.admits("cellar.local")) == (False, True)
    assert is_open.admits("cellar.local")
