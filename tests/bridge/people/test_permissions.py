"""People's permissions."""

import pytest

from bridge.people.permissions import DEFAULT, Level, Rights, rule_error

LEVELS = {
    "*": Level.LOOK,
    "example.org": Level.WORK,
    "@alice:example.org": Level.ADMINISTER,
    "@mallory:example.org": Level.NONE,
    "example.org:8448": Level.NONE,
}


@pytest.mark.parametrize(
    ("user", "level", "rule"),
    [
        ("@alice:example.org", Level.ADMINISTER, "@alice:example.org"),
        ("@mallory:example.org", Level.NONE, "@mallory:example.org"),
        ("@bob:example.org", Level.WORK, "example.org"),
        ("@bob:example.org:8448", Level.NONE, "example.org:8448"),
        ("@bob:sub.example.org", Level.LOOK, "*"),
        ("@alice:elsewhere.net", Level.LOOK, "*"),
        ("nonsense", Level.LOOK, "*"),
    ],
)
def test_the_most_specific_rule_applies(user: str, level: Level, rule: str) -> None:
    """Of the user, of the server with or without port, and for everybody."""
    permission = Rights(LEVELS).of(user)
    assert (permission.level, permission.rule) == (level, rule)


def test_without_a_matching_rule_there_is_no_permission() -> None:
    """A list of servers without a rule for everybody excludes all others."""
    permission = Rights({"example.org": Level.WORK}).of("@bob:elsewhere.net")
    assert (permission.level, permission.rule) == (Level.NONE, None)
    assert permission.refusal(Level.LOOK) == (
        'You need the permission "look" to see agents: no rule of [permissions] matches @bob:elsewhere.net.'
    )


def test_a_refusal_names_the_rule() -> None:
    """A person can report it to the administrator."""
    permission = Rights(LEVELS).of("@bob:elsewhere.net")
    assert permission.refusal(Level.LOOK) is None
    assert permission.refusal(Level.WORK) == (
        'You need the permission "work" to give tasks to agents: for @bob:elsewhere.net the rule "*" ='
        ' "look" of'
        " [permissions] applies."
    )


@pytest.mark.parametrize("has", Level)
@pytest.mark.parametrize("needed", Level)
def test_a_level_includes_lower_levels(has: Level, needed: Level) -> None:
    """None, look, work, administer."""
    order = [Level.NONE, Level.LOOK, Level.WORK, Level.ADMINISTER]
    assert has.includes(needed) is (order.index(has) >= order.index(needed))


def test_sensitive_commands_need_a_second_permission() -> None:
    """For a user or a server. The level alone is not enough."""
    rights = Rights(LEVELS, {"@bob:example.org", "trusted.net"})
    assert rights.sensitive_refusal("@bob:example.org") is None
    assert rights.sensitive_refusal("@anybody:trusted.net") is None
    refusal = rights.sensitive_refusal("@alice:example.org")
    assert refusal is not None
    assert "@alice:example.org" in refusal


def test_by_default_everybody_may_look() -> None:
    """Only servers that may federate can reach the rooms, and there is no higher permission."""
    assert dict(DEFAULT) == {"*": Level.LOOK}
    assert Rights().levels == DEFAULT


@pytest.mark.parametrize(
    ("key", "is_right"),
    [
        ("*", True),
        ("example.org", True),
        ("localhost:7676", True),
        ("@alice:example.org", True),
        ("@alice", False),
        ("*.example.org", False),
        ("", False),
        ("alice@example.org", False),
    ],
)
def test_the_keys_of_rules_are_validated(key: str, is_right: bool) -> None:
    """A misspelt key would match no user."""
    assert (rule_error(key) is None) is is_right
