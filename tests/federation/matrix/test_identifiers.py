"""Identifiers (specification, appendix "Identifier Grammar")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.matrix import identifiers
from federation.matrix.identifiers import ServerName

HASH = "CD66HAED5npg6074c6pDtLKalHjVfYb2q4Q3LZgrW6o"


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("matrix.org", ServerName("matrix.org", None, False)),
        ("matrix.org:8888", ServerName("matrix.org", 8888, False)),
        ("1.2.3.4", ServerName("1.2.3.4", None, True)),
        ("1.2.3.4:1234", ServerName("1.2.3.4", 1234, True)),
        ("[1234:5678::abcd]", ServerName("[1234:5678::abcd]", None, True)),
        ("[1234:5678::abcd]:5678", ServerName("[1234:5678::abcd]", 5678, True)),
        ("[::ffff:1.2.3.4]", ServerName("[::ffff:1.2.3.4]", None, True)),
        ("localhost:7676", ServerName("localhost", 7676, False)),
        ("EXAMPLE.org", ServerName("EXAMPLE.org", None, False)),
        ("xn--bcher-kva.example", ServerName("xn--bcher-kva.example", None, False)),
        ("999.1.2.3", ServerName("999.1.2.3", None, False)),
    ],
)
def test_server_names(name: str, parsed: ServerName) -> None:
    """server_name = hostname [ ":" port ], the hostname an IPv4 literal, a bracketed IPv6 literal or a DNS
    name."""
    assert identifiers.parse_server_name(name) == parsed
    assert identifiers.is_server_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ":8448",
        "a:",
        "a:123456",
        "a:99999",
        "a:-1",
        "a:８",
        "a b",
        "a_b",
        "a..b",
        ".a",
        "a.",
        "a/b",
        "a@b",
        "bücher.example",
        "[::1",
        "::1",
        "[]",
        "[::1%eth0]",
        "[12345::]",
        "[::1]8448",
        "a:1:2",
        "a\n",
        "a\0",
        "a" * 256,
    ],
)
def test_invalid_server_names(name: str) -> None:
    """For example with a second port, a path, a zone id or a newline."""
    assert not identifiers.is_server_name(name)


@pytest.mark.parametrize(
    ("user_id", "federated", "current"),
    [
        ("@alice:example.org", True, True),
        ("@a.b_c=d-e/f+0:example.org:8448", True, True),
        ("@a:[::1]:8448", True, True),
        ("@Alice:example.org", True, False),
        ("@:example.org", True, False),
        ("@é\t:example.org", True, False),
        ("@" + "a" * 242 + ":example.org", True, True),
        ("@" + "a" * 243 + ":example.org", False, False),
        ("@" + "é" * 122 + ":example.org", False, False),
        ("@a\0:example.org", False, False),
        ("@\ud800:example.org", False, False),
        ("@alice", False, False),
        ("alice:example.org", False, False),
        ("@alice:", False, False),
        ("@alice:exa mple.org", False, False),
        ("", False, False),
    ],
)
def test_user_ids(user_id: str, federated: bool, current: bool) -> None:
    """Historical user ids are accepted from other servers; new ones use the current alphabet; at most 255
    bytes."""
    assert identifiers.is_user_id(user_id) is federated
    assert identifiers.is_current_user_id(user_id) is current


@pytest.mark.parametrize(
    ("text", "expected"), [("@a:b", True), ("@:", True), ("@a:not a name", True), ("@a", False), ("a:b", False)]
)
def test_user_ids_in_power_levels(text: str, expected: bool) -> None:
    """Checked as in Synapse, so that both accept the same power levels."""
    assert identifiers.looks_like_user_id(text) is expected


@pytest.mark.parametrize(
    ("room_id", "expected"),
    [
        ("!abc:example.org", True),
        ("!" + HASH, True),
        ("!é:example.org", True),
        ("!" + HASH + "A", False),
        ("!" + HASH[:-1] + "/", False),
        ("!" + HASH[:-1], False),
        ("!abc", False),
        ("!a\0:example.org", False),
        ("#abc:example.org", False),
        ("!" + "a" * 255 + ":b", False),
    ],
)
def test_room_ids(room_id: str, expected: bool) -> None:
    """With a domain, or from room version 12 the hash of the create event."""
    assert identifiers.is_room_id(room_id) is expected


@pytest.mark.parametrize(
    ("alias", "expected"), [("#a:b.example", True), ("#:b", True), ("#a", False), ("!a:b", False), ("#a:b c", False)]
)
def test_room_aliases(alias: str, expected: bool) -> None:
    """`#room_alias:domain`, the localpart any valid code points except `:` and NUL."""
    assert identifiers.is_room_alias(alias) is expected


@pytest.mark.parametrize(
    ("event_id", "expected"),
    [("$" + HASH, True), ("$a:b.example", True), ("$", False), ("a", False), ("$" + "a" * 255, False), ("$\0", False)],
)
def test_event_ids(event_id: str, expected: bool) -> None:
    """Opaque, except for the sigil and the length."""
    assert identifiers.is_event_id(event_id) is expected


@pytest.mark.parametrize(
    ("key_id", "expected"),
    [("ed25519:auto", True), ("ed25519:a_B1", True), ("ed25519:", False), (":1", False), ("ed25519:a-b", False)],
)
def test_key_ids(key_id: str, expected: bool) -> None:
    """`algorithm:version`."""
    assert identifiers.is_key_id(key_id) is expected


@pytest.mark.parametrize(
    ("identifier", "local", "server"),
    [
        ("@alice:example.org:8448", "alice", "example.org:8448"),
        ("@a:[::1]", "a", "[::1]"),
        ("!x:y", "x", "y"),
        ("$" + HASH, None, None),
        ("@:", "", ""),
    ],
)
def test_domain_and_localpart(identifier: str, local: str | None, server: str | None) -> None:
    """The domain begins after the *first* colon: a localpart has none, a server name may have several."""
    assert identifiers.localpart(identifier) == local
    assert identifiers.domain(identifier) == server


@given(st.text(alphabet=st.characters(codec=None), max_size=300))
def test_nothing_is_ever_raised(text: str) -> None:
    """Any string is valid or invalid."""
    for sigil in ("", "@", "!", "#", "$"):
        for check in (
            identifiers.is_server_name,
            identifiers.is_user_id,
            identifiers.is_current_user_id,
            identifiers.is_room_id,
            identifiers.is_room_alias,
            identifiers.is_event_id,
            identifiers.is_key_id,
        ):
            assert check(sigil + text) in (True, False)


@given(st.text(max_size=300))
def test_the_length_counts_bytes(text: str) -> None:
    """255 bytes of UTF-8, however many characters."""
    assert identifiers.has_valid_length(text) == (len(text.encode()) <= 255)
