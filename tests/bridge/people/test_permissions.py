"""Who may look, give work, or administer."""

import pytest

from bridge.people.permissions import DEFAULT, Level, Rights, wrong_rule

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
def test_the_most_specific_rule_wins(user: str, level: Level, rule: str) -> None:
    """The user's own, then that of the server, which has a port or not, then that for everybody."""
    verdict = Rights(LEVELS).of(user)
    assert (verdict.level, verdict.rule) == (level, rule)


def test_without_any_rule_nobody_may_anything() -> None:
    """A list of servers, without a rule for everybody, is closed to all others."""
    verdict = Rights({"example.org": Level.WORK}).of("@bob:elsewhere.net")
    assert (verdict.level, verdict.rule) == (Level.NONE, None)
    assert verdict.refusal(Level.LOOK) == (
        'Looking at agents takes the permission "look": no rule of [permissions] is for @bob:elsewhere.net.'
    )


def test_a_refusal_says_which_rule_decided() -> None:
    """So that who is refused can tell who may change it."""
    verdict = Rights(LEVELS).of("@bob:elsewhere.net")
    assert verdict.refusal(Level.LOOK) is None
    assert verdict.refusal(Level.WORK) == (
        'Giving work to agents takes the permission "work": for @bob:elsewhere.net the rule "*" = "look" of'
        " [permissions] decides."
    )


@pytest.mark.parametrize("has", Level)
@pytest.mark.parametrize("needed", Level)
def test_a_level_includes_those_below_it(has: Level, needed: Level) -> None:
    """None, look, work, administer."""
    order = [Level.NONE, Level.LOOK, Level.WORK, Level.ADMINISTER]
    assert has.includes(needed) is (order.index(has) >= order.index(needed))


def test_what_is_sensitive_takes_a_second_permission() -> None:
    """By user or by server; the level alone is not enough."""
    rights = Rights(LEVELS, {"@bob:example.org", "trusted.net"})
    assert rights.sensitive_refusal("@bob:example.org") is None
    assert rights.sensitive_refusal("@anybody:trusted.net") is None
    refusal = rights.sensitive_refusal("@alice:example.org")
    assert refusal is not None
    assert "@alice:example.org" in refusal


def test_by_default_everybody_may_look() -> None:
    """Into rooms that only configured servers can reach; and nobody may do more."""
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
def test_what_can_be_the_key_of_a_rule(key: str, is_right: bool) -> None:
    """A misspelt one would protect nobody."""
    assert (wrong_rule(key) is None) is is_right
