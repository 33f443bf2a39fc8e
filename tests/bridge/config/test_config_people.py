"""The sections [people] and [permissions]."""

import tomllib

import pytest
from pydantic import TypeAdapter, ValidationError

from bridge.config.people import DEFAULT_PERMISSIONS, PERMISSIONS_EXAMPLE, People, Permissions, people_settings
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.permissions import Level
from bridge.text.toml_text import toml_value
from federation.peers.limits import Rate

PERMISSIONS: TypeAdapter[dict[str, Level]] = TypeAdapter(Permissions)


def test_permissions_are_parsed() -> None:
    """The keys are `*`, server names and user ids."""
    assert PERMISSIONS.validate_python(PERMISSIONS_EXAMPLE) == {
        "*": Level.LOOK,
        "example.org": Level.WORK,
        "@alice:example.org": Level.ADMINISTER,
    }


def test_permissions_are_written_as_toml_that_can_be_read() -> None:
    """`palaver config show` prints them."""
    text = f"permissions = {toml_value(PERMISSIONS_EXAMPLE)}"
    assert tomllib.loads(text) == {"permissions": PERMISSIONS_EXAMPLE}


@pytest.mark.parametrize("wrong", [{"@alice": "work"}, {"*.org": "work"}, {"": "work"}, {"*": "admin"}])
def test_an_invalid_rule_is_refused(wrong: dict[str, str]) -> None:
    """It would match no user, or more users than intended."""
    with pytest.raises(ValidationError):
        PERMISSIONS.validate_python(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sensitive": ["*"]},
        {"sensitive": ["@a"]},
        {"prefix": "!"},
        {"prefix": "a b"},
        {"room_version": "9"},
        {"join_rule": "restricted"},
        {"members": -1},
        {"requests_per_second": 0},
        {"requests_at_once": 0},
        {"nonsense": 1},
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, object]) -> None:
    """`sensitive` must name users or servers, because a second permission for everybody has no effect."""
    with pytest.raises(ValidationError):
        People(**wrong)


def test_every_setting_is_converted() -> None:
    """`PeopleSettings` has all settings of the section."""
    people = People(
        join_rule="knock", listed=True, room_version="11", show="asked", prefix="!a", members=3,
        sensitive=["example.org"], requests_per_second=0.5, requests_at_once=4,
    )  # fmt: skip
    settings = people_settings(HomeserverGhostNames("here.test"), people, DEFAULT_PERMISSIONS, ("default", "team"))
    assert (settings.node_id, settings.namespaces) == ("here.test", ("default", "team"))
    assert (settings.join_rule, settings.is_listed, settings.room_version) == ("knock", True, "11")
    assert (settings.show, settings.prefix, settings.members) == ("asked", "!a", 3)
    assert settings.request_rate == Rate(0.5, 4)
    assert settings.rights.of("@alice:example.org").level is Level.LOOK
    assert settings.rights.sensitive_refusal("@alice:example.org") is None
