"""Whether the registration, the configuration and the homeserver say the same."""

from pathlib import Path

import pytest

from bridge.config_appservice import AppService, wanted
from bridge.service.registration_check import check_registration
from bridge.service.registration_file import write
from storage.errors import LocalError
from tests.appservice.service.test_homeserver_check import Played, served


async def test_all_three_are_compared(tmp_path: Path) -> None:
    """What the file says otherwise than the configuration, and what the homeserver says to the file."""
    played = Played()
    async with served(played) as url:
        section = AppService(
            homeserver=url, domain="their.server", registration=tmp_path / "registration.yaml"
        )
        with pytest.raises(LocalError, match="There is no registration"):
            await check_registration(section, "kitchen.local")
        written = write(section.registration, wanted(section, "kitchen.local"))
        played.whoami = {"user_id": f"@{written.secrets.sender_localpart}:their.server"}
        assert await check_registration(section, "kitchen.local") == ()
        moved = section.model_copy(update={"port": 9_000})
        played.whoami = {"user_id": "@somebody:their.server"}
        elsewhere, unknown = await check_registration(moved, "kitchen.local")
    assert "http://127.0.0.1:9000" in elsewhere
    assert "as that of @somebody:their.server" in unknown
    assert played.pinged == []
