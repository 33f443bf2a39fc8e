"""The section [appservice]."""

import pytest
from pydantic import ValidationError

from appservice.registration.namespaces import NODE_AGENT, Namespaces
from appservice.registration.registration import RegistrationSettings
from bridge.config.appservice import AppService, check_appservice, wanted
from bridge.matrix.ghost import NODE_USER
from bridge.text.toml_text import toml_value

FULL = AppService(homeserver="http://127.0.0.1:8008/", domain="their.server")


def test_an_appservice_needs_the_homeservers_url_and_name() -> None:
    """A node that is a homeserver itself needs neither."""
    check_appservice("federation", AppService())
    check_appservice("appservice", FULL)
    with pytest.raises(ValueError, match=r"no homeserver and no domain"):
        check_appservice("appservice", AppService())
    with pytest.raises(ValueError, match=r"has no domain"):
        check_appservice("appservice", AppService(homeserver="http://127.0.0.1:8008"))


@pytest.mark.parametrize("change", [{"host": "::"}, {"host": "0.0.0.0"}, {"port": 0}])
def test_an_unspecific_address_needs_a_url(change: dict[str, object]) -> None:
    """A wildcard address or port 0 is not an address that the homeserver can reach."""
    section = FULL.model_copy(update=change)
    with pytest.raises(ValueError, match="set url"):
        check_appservice("appservice", section)
    check_appservice("appservice", section.model_copy(update={"url": "http://palaver.internal:7678"}))


def test_the_registration_has_id_url_and_namespaces() -> None:
    """The url is host and port unless it is configured."""
    assert wanted(FULL, "kitchen.local") == RegistrationSettings(
        "palaver", "http://127.0.0.1:7678", Namespaces("their.server", "kitchen.local", "_agent_")
    )
    behind = FULL.model_copy(update={"url": "https://palaver.internal/app", "id": "other"})
    assert wanted(behind, "kitchen.local").url == "https://palaver.internal/app"
    assert AppService(host="::1").reached_at == "http://[::1]:7678"


def test_the_node_user_has_the_same_name_in_both_packages() -> None:
    """The name is reserved in `appservice` and in `bridge`."""
    assert NODE_AGENT == NODE_USER


def test_a_trailing_slash_of_a_url_is_removed() -> None:
    """Paths are appended to the URL."""
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
def test_invalid_settings_are_refused(wrong: dict[str, object]) -> None:
    """The homeserver would refuse a registration made of them."""
    with pytest.raises(ValidationError):
        AppService.model_validate(wrong)


def test_every_setting_has_a_description_and_an_example() -> None:
    """A setting without a default has an example."""
    for name, field in AppService.model_fields.items():
        assert field.description, name
        assert toml_value(field.examples[0] if field.default is None and field.examples else field.default)
