"""The people as whom this node may speak: those who gave it a token, or all of the homeserver by the second
registration."""

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from appservice.double_puppets import Login
from appservice.namespaces import Namespaces
from appservice.sealing import MOST_TOKEN, NONCE_BYTES, opened, sealed
from appservice.service.accounts import owner
from appservice.service.homeserver_client import HomeserverClient
from federation.errors import MatrixError
from federation.identifiers import domain, is_user_id
from storage.database import Database
from storage.double_puppets import PuppetRow, delete_puppet, fetch_puppet, keep_puppet, refuse_puppet


@dataclass(frozen=True, slots=True)
class PersonToken:
    """`user` is whom to name with it, if the token is not the person's own."""

    token: str = field(repr=False)
    user: str | None = None
    login_id: str | None = None


class Puppets:
    """`key` is what tokens are sealed with; None where people are to give none. `as_token` is that of the
    second registration, if there is one. `others` are users of the homeserver who are no people."""

    def __init__(
        self,
        client: HomeserverClient,
        database: Database,
        namespaces: Namespaces,
        *,
        key: bytes | None = None,
        as_token: str | None = None,
        others: Collection[str] = (),
        now_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._database = database
        self._namespaces = namespaces
        self._key = key
        self._as_token = as_token
        self._others = frozenset(others)
        self._now_ms = now_ms

    @property
    def takes_tokens(self) -> bool:
        return self._key is not None

    @property
    def speaks_for_all(self) -> bool:
        """Whether nobody has to give anything."""
        return self._as_token is not None

    def is_person(self, user: str) -> bool:
        """Whether this could be somebody who lives on the homeserver."""
        return (
            is_user_id(user)
            and domain(user) == self._namespaces.domain
            and not self._namespaces.owns_user(user)
            and user not in self._others
        )

    # -- speaking --

    async def can_speak_for(self, person: str) -> bool:
        return bool(await self.tokens(person))

    async def tokens(self, person: str) -> list[PersonToken]:
        """With which to speak, the person's own first. None for who is no person of the homeserver."""
        if not self.is_person(person):
            return []
        found = []
        row = await self._row(person)
        own = None if row is None or row.refused_at is not None else self._opened(row)
        if row is not None and own is not None:
            found.append(PersonToken(own, login_id=row.login_id))
        if self._as_token is not None:
            found.append(PersonToken(self._as_token, person))
        return found

    async def refused(self, person: str, token: PersonToken) -> None:
        """The homeserver does not take it. One that is the person's own is not shown to it again."""
        if token.login_id is not None:
            async with self._database.statements() as connection:
                await refuse_puppet(connection, person, token.login_id, self._now_ms())

    # -- tokens that people give --

    async def login(self, person: str) -> Login | None:
        """The one that the person has. One that cannot be opened any more, because the key is another one, is
        as good as refused."""
        row = await self._row(person)
        if row is None:
            return None
        refused_at = row.refused_at
        if refused_at is None and self._opened(row) is None:
            refused_at = row.made_at
        return Login(row.login_id, row.user_id, row.made_at, refused_at)

    async def give(self, person: str, token: str) -> str:
        """The id of the login. Raises `MatrixError` unless it is the person's own token, and good."""
        if self._key is None:
            raise MatrixError("M_FORBIDDEN", "This node takes no tokens of people.", 403)
        if not 0 < len(token) <= MOST_TOKEN or not token.isascii() or not token.isprintable():
            raise MatrixError("M_INVALID_PARAM", "That is no access token.")
        whose = await owner(self._client, token)
        if whose is None:
            raise MatrixError("M_INVALID_PARAM", "The homeserver does not know that access token.")
        if whose != person or not self.is_person(person):
            raise MatrixError("M_FORBIDDEN", "The access token is another user's.", 403)
        login_id = secrets.token_hex(16)
        box = sealed(self._key, secrets.token_bytes(NONCE_BYTES), person, token)
        async with self._database.statements() as connection:
            await keep_puppet(connection, PuppetRow(person, login_id, box, self._now_ms()))
        return login_id

    async def take_back(self, person: str, login_id: str) -> bool:
        """Whether the person had it. The session of which it is goes on: it is the person's."""
        async with self._database.statements() as connection:
            return await delete_puppet(connection, person, login_id)

    async def _row(self, person: str) -> PuppetRow | None:
        return await self._database.look(partial(fetch_puppet, user_id=person))

    def _opened(self, row: PuppetRow) -> str | None:
        return None if self._key is None else opened(self._key, row.sealed, row.user_id)
