"""The configuration of what people see of agents."""

import tomllib

import pytest
from pydantic import TypeAdapter, ValidationError

from bridge.config.people import (
    DEFAULT_PERMISSIONS,
    PERMISSIONS_EXAMPLE,
    People,
    Permissions,
    people_settings,
)
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.permissions import Level
from bridge.text.toml_text import toml_value

PERMISSIONS: TypeAdapter[dict[str, Level]] = TypeAdapter(Permissions)


def test_permissions_are_read() -> None:
    """Of everybody, of servers, of users."""
    assert PERMISSIONS.validate_python(PERMISSIONS_EXAMPLE) == {
        "*": Level.LOOK,
        "example.org": Level.WORK,
        "@alice:example.org": Level.ADMINISTER,
    }


def test_they_are_written_as_they_are_read() -> None:
    """In a file that a person keeps."""
    text = f"permissions = {toml_value(PERMISSIONS_EXAMPLE)}"
    assert tomllib.loads(text) == {"permissions": PERMISSIONS_EXAMPLE}


@pytest.mark.parametrize("wrong", [{"@alice": "work"}, {"*.org": "work"}, {"": "work"}, {"*": "admin"}])
def test_a_misspelt_rule_is_refused(wrong: dict[str, str]) -> None:
    """It would protect nobody, or everybody from themselves."""
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
        {"nonsense": 1},
    ],
)
def test_what_is_refused(wrong: dict[str, object]) -> None:
    """A second permission for everybody would be none."""
    with pytest.raises(ValidationError):
        People(**wrong)


def test_settings_are_made_of_it() -> None:
    """All of them."""
    people = People(
        join_rule="knock", listed=True, room_version="11", show="asked", prefix="!a", members=3,
        sensitive=["example.org"],
    )  # fmt: skip
    settings = people_settings(
        HomeserverGhostNames("here.test"), people, DEFAULT_PERMISSIONS, ("default", "team")
    )
    assert (settings.node_id, settings.namespaces) == ("here.test", ("default", "team"))
    assert (settings.join_rule, settings.is_listed, settings.room_version) == ("knock", True, "11")
    assert (settings.show, settings.prefix, settings.members) == ("asked", "!a", 3)
    assert settings.rights.of("@alice:example.org").level is Level.LOOK
    assert settings.rights.sensitive_refusal("@alice:example.org") is None
