"""With which servers this node speaks."""

from dataclasses import replace

from federation.peers.policy import policy


def test_closed_but_for_those_known() -> None:
    """The default: a server that nobody wrote down is a stranger. Names have no case, and may have a port."""
    closed = policy(["Kitchen.local", "cellar.local:7676"], is_open=False)
    assert closed.admits("kitchen.LOCAL")
    assert closed.admits("cellar.local:7676")
    assert not closed.admits("cellar.local")
    assert not closed.admits("attic.local")


def test_open_to_all_but_some() -> None:
    """What is refused is refused in both modes, also when it is known."""
    is_open = policy([], is_open=True, refused=["*.evil.example", "bad.example"])
    assert is_open.admits("attic.local")
    assert not is_open.admits("a.EVIL.example")
    assert not is_open.admits("bad.example")
    assert not policy(["bad.example"], is_open=False, refused=["bad.*"]).admits("bad.example")


def test_some_come_and_go() -> None:
    """What is added is known from that moment on; who is not trusted is refused whatever else holds."""
    added, distrusted = {"attic.local"}, {"cellar.local"}
    closed = replace(policy(["cellar.local"], is_open=False), added=added, distrusted=distrusted)
    is_open = replace(policy([], is_open=True, refused=["attic.*"]), added=added, distrusted=distrusted)
    assert (closed.admits("ATTIC.local"), closed.admits("Cellar.local")) == (True, False)
    assert (is_open.admits("attic.local"), is_open.admits("Cellar.local")) == (False, False)
    added.clear()
    distrusted.clear()
    assert (closed.admits("attic.local"), closed.admits("cellar.local")) == (False, True)
    assert is_open.admits("cellar.local")
