from ipaddress import IPv4Network, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.matrix.networks import (
    LOOPBACK,
    AcceptPlain,
    AcceptTls,
    Address,
    AdmissionRules,
    Decision,
    PinnedCertificate,
    PresentedCertificate,
    Refusal,
    Refuse,
    admit,
    host_of,
    is_within,
    lacks_required_certificate,
    limited_network,
    peers_of_certificate,
    read_address,
)

HOME = ip_address("127.0.0.1")
AWAY = ip_address("192.0.2.7")
BOTH = AdmissionRules()
PLAIN_ONLY = AdmissionRules(offers_tls=False)


@pytest.mark.parametrize(
    ("address", "first_byte", "rules", "expected"),
    [
        (HOME, 0x16, BOTH, AcceptTls()),
        (AWAY, 0x16, BOTH, AcceptTls()),
        (HOME, ord("G"), BOTH, AcceptPlain()),
        (AWAY, ord("G"), BOTH, Refuse(Refusal.PLAIN_NOT_ALLOWED)),
        (HOME, 0x00, BOTH, AcceptPlain()),
        (AWAY, 0x80, BOTH, Refuse(Refusal.PLAIN_NOT_ALLOWED)),
        (HOME, 0x16, PLAIN_ONLY, Refuse(Refusal.TLS_NOT_OFFERED)),
        (HOME, ord("G"), PLAIN_ONLY, AcceptPlain()),
        (HOME, None, BOTH, Refuse(Refusal.GONE)),
    ],
)
def test_the_first_byte_and_the_address_decide(
    address: Address, first_byte: int | None, rules: AdmissionRules, expected: Decision
) -> None:
    """0x16 is a TLS handshake; anything else is plain HTTP, which is accepted from the configured networks
    only."""
    assert admit(address, first_byte, rules) == expected


@given(st.ip_addresses(), st.integers(0, 255))
def test_plain_is_never_admitted_from_outside_the_networks(address: Address, first_byte: int) -> None:
    """Whatever the first byte is."""
    rules = AdmissionRules(plain_networks=(IPv4Network("10.0.0.0/8"), IPv6Network("fd00::/8")))
    if admit(address, first_byte, rules) == AcceptPlain():
        assert any(address in network for network in rules.plain_networks)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1"), ("::ffff:192.0.2.7", "192.0.2.7"), ("fe80::1%eth0", "fe80::1"), ("::1", "::1")],
)
def test_a_mapped_address_is_an_ipv4_address(host: str, expected: str) -> None:
    """So that the networks of the configuration match it."""
    assert read_address(host) == ip_address(expected)


def test_loopback_is_allowed_by_default_in_both_families() -> None:
    """By default only this machine may use plain HTTP."""
    assert is_within(read_address("127.3.2.1"), LOOPBACK)
    assert is_within(read_address("::1"), LOOPBACK)
    assert not is_within(AWAY, LOOPBACK)


def test_limits_apply_to_an_ipv6_64() -> None:
    """An IPv6 host owns its whole /64; IPv4 addresses count separately."""
    one, other = ip_address("2001:db8::1"), ip_address("2001:db8::ffff:2")
    assert limited_network(one) == limited_network(other)
    assert limited_network(one) != limited_network(ip_address("2001:db8:0:1::1"))
    assert limited_network(AWAY) != limited_network(ip_address("192.0.2.8"))


LEAF = PinnedCertificate("Kitchen.local", "leaf", is_authority=False)
AUTHORITY = PinnedCertificate("garden.local:8448", "authority", is_authority=True)


def test_a_pinned_leaf_authenticates_its_peer() -> None:
    """The same certificate, and no other."""
    assert peers_of_certificate(PresentedCertificate("leaf"), [LEAF, AUTHORITY]) == {"kitchen.local"}
    assert peers_of_certificate(PresentedCertificate("another"), [LEAF, AUTHORITY]) == frozenset()


def test_a_pinned_authority_authenticates_its_peer() -> None:
    """By any certificate with its signature, whatever names it has."""
    assert peers_of_certificate(PresentedCertificate("x", signed_by=frozenset({"authority"})), [LEAF, AUTHORITY]) == {
        "garden.local:8448"
    }


def test_a_leaf_is_no_authority() -> None:
    """A certificate signed by a pinned leaf authenticates no peer."""
    assert peers_of_certificate(PresentedCertificate("x", signed_by=frozenset({"leaf"})), [LEAF]) == frozenset()


def test_peers_with_a_shared_authority_need_their_name() -> None:
    """So that they cannot impersonate each other."""
    shared = [
        PinnedCertificate("a.example", "ca", is_authority=True),
        PinnedCertificate("B.example:8448", "ca", is_authority=True),
    ]
    signed = frozenset({"ca"})
    assert peers_of_certificate(PresentedCertificate("x", frozenset({"A.EXAMPLE"}), signed), shared) == {"a.example"}
    assert peers_of_certificate(PresentedCertificate("y", frozenset({"b.example"}), signed), shared) == {
        "b.example:8448"
    }
    assert peers_of_certificate(PresentedCertificate("z", frozenset(), signed), shared) == frozenset()


@pytest.mark.parametrize(
    ("origin", "shown", "required", "missing"),
    [
        ("kitchen.local", set(), set(), False),
        ("kitchen.local", set(), {"kitchen.local"}, True),
        ("kitchen.local", {"kitchen.local"}, {"kitchen.local"}, False),
        ("kitchen.local", {"garden.local"}, {"kitchen.local", "garden.local"}, True),
        ("garden.local", {"kitchen.local"}, {"kitchen.local"}, False),
        ("KITCHEN.local", set(), {"kitchen.local"}, True),
        ("KITCHEN.local", {"kitchen.local"}, {"kitchen.local"}, False),
    ],
)
def test_a_peer_with_a_configured_certificate_must_show_it(
    origin: str, shown: set[str], required: set[str], missing: bool
) -> None:
    """In whichever case the server name is written."""
    assert lacks_required_certificate(origin, shown, required) is missing


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("kitchen.local", "kitchen.local"),
        ("kitchen.local:7676", "kitchen.local"),
        ("[::1]:7676", "::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("192.0.2.7:1", "192.0.2.7"),
    ],
)
def test_the_host_of_a_server_name(name: str, host: str) -> None:
    """As in certificates: without port and brackets."""
    assert host_of(name) == host
