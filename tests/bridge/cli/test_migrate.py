"""`palaver migrate`."""

import pytest

from storage.connect import DatabaseAddress
from tests.bridge.cli.conftest import Palaver


def test_it_creates_the_schema_and_shows_its_version(
    palaver: Palaver, empty_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each migration has a line. The second run has none."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", empty_address.url)
    result = palaver("migrate")
    assert result.code == 0
    assert "Migrating: node" in result.err
    assert "newest schema version" in result.out
    again = palaver("migrate", "--json")
    assert again.json["schema_version"] >= 1
    assert again.err == ""
