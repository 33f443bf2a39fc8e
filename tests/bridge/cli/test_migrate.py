"""`palaver migrate`."""

import pytest

from storage.connect import DatabaseAddress
from tests.bridge.cli.conftest import Palaver


def test_it_makes_the_schema_and_says_its_version(
    palaver: Palaver, empty_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain lines for each step, the version at the end; the second time there is no step."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", empty_address.url)
    said = palaver("migrate")
    assert said.code == 0
    assert "Migrating: node" in said.err
    assert "the newest" in said.out
    again = palaver("migrate", "--json")
    assert again.json["schema_version"] >= 1
    assert again.err == ""
