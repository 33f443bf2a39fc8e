"""The sections [provisioning] and [double_puppet]."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from appservice.registration.double_puppets import PuppetRegistrationSettings
from bridge.config.appservice import AppService
from bridge.config.people import DoublePuppet, Provisioning, check_double_puppet, wanted_puppets

APPSERVICE = AppService(homeserver="http://127.0.0.1:8008", domain="their.server")


def test_double_puppets_for_all_users_must_be_enabled() -> None:
    """By default only people's own tokens are accepted, and there is no shared secret."""
    assert (DoublePuppet().enabled, DoublePuppet().tokens) == (False, True)
    assert (Provisioning().enabled, Provisioning().shared_secret) == (True, None)


def test_the_registrations_differ_in_id_and_file() -> None:
    """A homeserver has one registration for each id, and a file contains one."""
    assert wanted_puppets(DoublePuppet(), APPSERVICE) == PuppetRegistrationSettings(
        "palaver-double-puppet", "their.server"
    )
    check_double_puppet(DoublePuppet(), APPSERVICE)
    with pytest.raises(ValueError, match="have the same id"):
        check_double_puppet(DoublePuppet(id="palaver"), APPSERVICE)
    with pytest.raises(ValueError, match="the same registration file"):
        check_double_puppet(DoublePuppet(registration=Path("registration.yaml")), APPSERVICE)


def test_an_id_must_be_valid_in_a_url() -> None:
    """The homeserver uses it in the path of a request."""
    with pytest.raises(ValidationError):
        DoublePuppet(id="a b")
