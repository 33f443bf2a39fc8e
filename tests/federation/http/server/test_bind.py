"""Binding the addresses of the port."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from federation.http.server.listener import Bind, BoundAddress, bind, bound_address
from storage.errors import LocalError


@contextmanager
def bound(*hosts: Bind, port: int = 0) -> Iterator[list[socket.socket]]:
    listening = bind(hosts, port)
    try:
        yield listening
    finally:
        for one in listening:
            one.close()


def has_ipv6() -> bool:
    try:
        with bound(Bind("::1")):
            return True
    except LocalError:
        return False


def test_port_zero_picks_one_free_port_for_all_addresses() -> None:
    """As if the port was configured."""
    with bound(Bind("127.0.0.1"), Bind("127.0.0.2"), Bind("::1", optional=True)) as listening:
        assert len({bound_address(one).port for one in listening}) == 1
        assert bound_address(listening[0]).port > 0


def test_both_address_families_are_bound() -> None:
    """`::` does not include IPv4, so that `0.0.0.0` is free and IPv4 peers keep their addresses."""
    with bound(Bind("0.0.0.0"), Bind("::", optional=True)) as listening:
        port = bound_address(listening[0]).port
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, peer = _accept(listening[0])
            accepted.close()
            assert peer == client.getsockname()


def test_a_port_in_use_is_reported() -> None:
    """With possible causes and what to do."""
    with bound(Bind("127.0.0.1")) as listening:
        port = bound_address(listening[0]).port
        with pytest.raises(LocalError) as refused, bound(Bind("127.0.0.1"), port=port):
            pass
    assert refused.value.problem.startswith(f"Port {port} on 127.0.0.1 is in use")
    assert f"sport = :{port}" in refused.value.advice


def test_nothing_stays_bound_when_one_address_fails() -> None:
    """All addresses are bound or none."""
    with bound(Bind("127.0.0.2")) as taken:
        port = bound_address(taken[0]).port
        with pytest.raises(LocalError), bound(Bind("127.0.0.1"), Bind("127.0.0.2"), port=port):
            pass
        with bound(Bind("127.0.0.1"), port=port) as again:
            assert bound_address(again[0]) == BoundAddress("127.0.0.1", port)


def test_an_address_of_another_machine_is_reported() -> None:
    """192.0.2.0/24 is for documentation, so no machine has it."""
    with pytest.raises(LocalError, match=r"no address 192\.0\.2\.1\. Set one that it has"), bound(Bind("192.0.2.1")):
        pass


def test_a_missing_optional_address_is_skipped() -> None:
    """A machine without IPv6 listens on IPv4 when `::1` was only a default."""
    with bound(Bind("127.0.0.1"), Bind("192.0.2.1", optional=True)) as listening:
        assert [bound_address(one).host for one in listening] == ["127.0.0.1"]


def test_an_optional_address_in_use_is_not_skipped() -> None:
    """Skipping it would leave its port to another program unnoticed."""
    with bound(Bind("127.0.0.2")) as taken:
        port = bound_address(taken[0]).port
        with (
            pytest.raises(LocalError, match="is in use"),
            bound(Bind("127.0.0.1"), Bind("127.0.0.2", optional=True), port=port),
        ):
            pass


def test_at_least_one_address_is_required() -> None:
    """A node must listen somewhere."""
    with pytest.raises(LocalError, match="None of the addresses"), bound(Bind("192.0.2.1", optional=True)):
        pass


@pytest.mark.parametrize("host", ["localhost", "", "127.0.0.1:80", "[::1]", "a" * 300, "é\udc80", "1.2.3.4.5"])
def test_host_names_are_refused(host: str) -> None:
    """A name can resolve to several and changing addresses."""
    with pytest.raises(LocalError, match="is not an IP address"), bound(Bind(host)):
        pass


def test_a_privileged_port_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal is simulated, because tests may run as root."""

    def refuse(self: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(LocalError, match="may not listen on port 443"), bound(Bind("127.0.0.1"), port=443):
        pass


def test_other_errors_are_reported_with_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with the text of the system."""

    def refuse(self: socket.socket, backlog: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(socket.socket, "listen", refuse)
    with pytest.raises(LocalError, match="could not be opened: Input/output error"), bound(Bind("127.0.0.1")):
        pass


def test_another_port_is_chosen_if_it_is_in_use_on_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system checks the first address only."""
    real = socket.socket.bind
    refused: list[int] = []

    def bind_once_refused(self: socket.socket, address: tuple[str, int]) -> None:
        if address[0] == "127.0.0.2" and not refused:
            refused.append(address[1])
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        real(self, address)

    monkeypatch.setattr(socket.socket, "bind", bind_once_refused)
    with bound(Bind("127.0.0.1"), Bind("127.0.0.2")) as listening:
        assert len({bound_address(one).port for one in listening}) == 1
    assert len(refused) == 1


def test_addresses_are_formatted_as_in_urls() -> None:
    """IPv6 addresses have brackets."""
    assert str(BoundAddress("127.0.0.1", 7676)) == "127.0.0.1:7676"
    assert str(BoundAddress("::1", 7676)) == "[::1]:7676"


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_ipv6_loopback_is_served() -> None:
    """`::1` is a default."""
    with bound(Bind("127.0.0.1"), Bind("::1")) as listening:
        port = bound_address(listening[1]).port
        with socket.create_connection(("::1", port)):
            accepted, _ = _accept(listening[1])
            accepted.close()


def _accept(listening: socket.socket) -> tuple[socket.socket, object]:
    listening.settimeout(30)
    return listening.accept()
