"""The node's own users on the homeserver, and what anybody there says of himself."""

from collections.abc import Mapping
from typing import Any

from mautrix.api import Method, Path

from appservice.service.living.parts import HasParts
from federation.errors import MatrixError
from federation.identifiers import is_user_id
from federation.profile import MOST_CHARACTERS, changed, read
from storage.users import fetch_profile, update_profile


class Users(HasParts):
    async def ensure_user(self, user: str) -> None:
        await self._parts.ghosts.ensure_user(user)

    async def profile(self, user: str) -> dict[str, Any] | None:
        if not is_user_id(user):
            raise MatrixError("M_INVALID_PARAM", f"{user[:255]} is no user id.", 400)
        if not self._parts.namespaces.owns_user(user):
            return await self._ask_profile(user)
        if not await self._is_made(user):
            return None
        # What we have said; nobody else says anything of it. Where that is nothing, the homeserver may have
        # called it something by itself.
        said = await self._parts.database.look(lambda connection: fetch_profile(connection, user))
        return said or await self._ask_profile(user)

    async def set_profile(
        self, user: str, *, displayname: str | None = None, avatar_url: str | None = None
    ) -> None:
        self._refuse_strangers(user)
        given = {"displayname": displayname, "avatar_url": avatar_url}
        said: Mapping[str, Any] = {name: text for name, text in given.items() if text is not None}
        before = await self.profile(user)
        if before is None:
            raise MatrixError("M_NOT_FOUND", "There is no such user here.", 404)
        after = changed(before, said)
        for name in MOST_CHARACTERS:
            if before.get(name) != after.get(name):
                path = Path.v3.profile[user][name]
                # What is empty is taken out.
                await self._parts.client.ask(Method.PUT, path, {name: after.get(name, "")}, user=user)
        # After the homeserver has it: whoever was killed in between says it again.
        async with self._parts.database.transaction() as connection:
            await update_profile(connection, user, after)

    async def _is_made(self, user: str) -> bool:
        """Whether it is one of ours, and on the homeserver."""
        return self._parts.namespaces.agent(user) is not None and await self._parts.ghosts.is_known(user)

    async def _ask_profile(self, user: str) -> dict[str, Any] | None:
        node_user = self._parts.namespaces.node_user
        # Homeservers may show profiles to their users alone.
        asker = node_user if await self._parts.ghosts.is_known(node_user) else None
        try:
            found = await self._parts.client.ask(Method.GET, Path.v3.profile[user], user=asker)
        except MatrixError as refused:
            # "404: There is no profile information for this user or this user does not exist.", and "403: The
            # server is unwilling to disclose whether the user exists and/or has a profile".
            if refused.status in {403, 404}:
                return None
            raise
        return read(found) or {}
