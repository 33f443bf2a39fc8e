"""The configuration of a node that is a guest."""

import pytest
from pydantic import ValidationError

from appservice.registration.namespaces import NODE_AGENT, Namespaces
from appservice.registration.registration import Wanted
from bridge.config.appservice import AppService, check_appservice, wanted
from bridge.matrix.ghost import NODE_USER
from bridge.text.toml_text import toml_value

FULL = AppService(homeserver="http://127.0.0.1:8008/", domain="their.server")


def test_what_has_no_default_is_the_homeserver() -> None:
    """Its address and its name; a node that is one itself needs neither."""
    check_appservice("federation", AppService())
    check_appservice("appservice", FULL)
    with pytest.raises(ValueError, match=r"no homeserver and no domain"):
        check_appservice("appservice", AppService())
    with pytest.raises(ValueError, match=r"has no domain"):
        check_appservice("appservice", AppService(homeserver="http://127.0.0.1:8008"))


@pytest.mark.parametrize("change", [{"host": "::"}, {"host": "0.0.0.0"}, {"port": 0}])
def test_the_homeserver_has_to_be_told_where_to_find_us(change: dict[str, object]) -> None:
    """An address that means all of them is none to go to."""
    section = FULL.model_copy(update=change)
    with pytest.raises(ValueError, match="write url"):
        check_appservice("appservice", section)
    check_appservice("appservice", section.model_copy(update={"url": "http://palaver.internal:7678"}))


def test_what_the_registration_has_to_say() -> None:
    """Under which id, where to find us, and what is ours."""
    assert wanted(FULL, "kitchen.local") == Wanted(
        "palaver", "http://127.0.0.1:7678", Namespaces("their.server", "kitchen.local", "_agent_")
    )
    behind = FULL.model_copy(update={"url": "https://palaver.internal/app", "id": "other"})
    assert wanted(behind, "kitchen.local").url == "https://palaver.internal/app"
    assert AppService(host="::1").reached_at == "http://[::1]:7678"


def test_the_node_is_called_the_same_on_both_sides() -> None:
    """No agent of the configuration has its name."""
    assert NODE_AGENT == NODE_USER


def test_an_address_has_no_slash_at_its_end() -> None:
    """Paths are put behind it."""
    assert FULL.homeserver == "http://127.0.0.1:8008"


@pytest.mark.parametrize(
    "wrong",
    [
        {"homeserver": "their.server"},
        {"homeserver": "http://user:secret@their.server"},
        {"homeserver": "http://their.server/?a=b"},
        {"domain": "https://their.server"},
        {"user_prefix": "A"},
        {"user_prefix": ""},
        {"user_prefix": "palaver-"},
        {"id": "a/b"},
        {"host": "localhost"},
        {"port": 65_536},
        {"url": "palaver.internal:7678"},
        {"nothing": 1},
    ],
)
def test_a_mistake_is_refused(wrong: dict[str, object]) -> None:
    """Before the homeserver would."""
    with pytest.raises(ValidationError):
        AppService.model_validate(wrong)


def test_every_setting_can_be_shown() -> None:
    """With what it means, and an example where there is no default."""
    for name, field in AppService.model_fields.items():
        assert field.description, name
        assert toml_value(field.examples[0] if field.default is None and field.examples else field.default)
