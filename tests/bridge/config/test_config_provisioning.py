"""The configuration of the interface for bridge managers, and of speaking as people."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from appservice.people.double_puppets import WantedPuppets
from bridge.config.appservice import AppService
from bridge.config.people import DoublePuppet, Provisioning, check_double_puppet, wanted_puppets

GUEST = AppService(homeserver="http://127.0.0.1:8008", domain="their.server")


def test_a_node_speaks_as_everybody_only_where_somebody_says_so() -> None:
    """People may give it their own token; a shared secret there is only where a file has one."""
    assert (DoublePuppet().enabled, DoublePuppet().tokens) == (False, True)
    assert (Provisioning().enabled, Provisioning().shared_secret) == (True, None)


def test_the_second_registration_is_another_one() -> None:
    """A homeserver knows each id once, and a file holds one."""
    assert wanted_puppets(DoublePuppet(), GUEST) == WantedPuppets("palaver-double-puppet", "their.server")
    check_double_puppet(DoublePuppet(), GUEST)
    with pytest.raises(ValueError, match="have one id"):
        check_double_puppet(DoublePuppet(id="palaver"), GUEST)
    with pytest.raises(ValueError, match="one file"):
        check_double_puppet(DoublePuppet(registration=Path("registration.yaml")), GUEST)


def test_an_id_is_one_that_homeservers_take() -> None:
    """It stands in an address of theirs."""
    with pytest.raises(ValidationError):
        DoublePuppet(id="a b")
