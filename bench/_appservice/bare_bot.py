"""The bare mautrix bot as a process, with a registration as in its documentation."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench._appservice.echo_bot import Settings
from bench._appservice.homeserver import Homeserver
from bench._harness.child import Child, child, python_module
from bench._harness.ports import LOOPBACK
from tests.support.ports import lasting_port

LOCALPART = "bare-bot"
START_SECONDS = 60.0


@dataclass(frozen=True)
class BotPlace:
    """Its settings, and its registration file for the homeserver."""

    settings: Settings
    registration: Path

    @property
    def user_id(self) -> str:
        """Return the bot's user."""
        return f"@{LOCALPART}:{self.settings.domain}"


def prepared(directory: Path, homeserver: Homeserver, room: str, room_of_threads: str) -> BotPlace:
    """Prepare the bot for rooms with these aliases; in the second one it answers in threads."""
    directory.mkdir()
    settings = Settings(
        homeserver=homeserver.url,
        domain=homeserver.synapse.server_name,
        service_id=LOCALPART,
        localpart=LOCALPART,
        as_token=secrets.token_hex(32),
        hs_token=secrets.token_hex(32),
        port=lasting_port(),
        state_file=str(directory / "state.json"),
        room=room,
        room_of_threads=room_of_threads,
    )
    registration = directory / "registration.yaml"
    # What is JSON is YAML too.
    registration.write_text(
        json.dumps(
            {
                "id": LOCALPART,
                "url": f"http://{LOOPBACK}:{settings.port}",
                "as_token": settings.as_token,
                "hs_token": settings.hs_token,
                "sender_localpart": LOCALPART,
                "rate_limited": False,
                "namespaces": {"users": [], "aliases": [], "rooms": []},
            }
        )
    )
    return BotPlace(settings, registration)


@asynccontextmanager
async def bare_bot(place: BotPlace) -> AsyncIterator[Child]:
    """Run the bot until the block ends; it has joined its rooms."""
    async with child("the bare bot", *python_module("bench._appservice.echo_bot", place.settings.as_json())) as bot:
        await bot.line(START_SECONDS)
        yield bot
