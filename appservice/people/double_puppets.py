"""Double puppets: sending as people of the homeserver, with their own tokens or with a second registration
(`appservice.registration.double_puppets`)."""

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from appservice.homeserver.accounts import token_owner
from appservice.homeserver.client import HomeserverClient
from appservice.registration.namespaces import Namespaces
from appservice.registration.tokens import MAX_TOKEN_LENGTH, NONCE_BYTES, seal, unseal
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_user_id
from storage.database import Database
from storage.people.double_puppets import PuppetRow, delete_puppet, fetch_puppet, mark_puppet_refused, upsert_puppet

SOURCE_KEY: Final = "fi.mau.double_puppet_source"
SOURCE: Final = "palaver"
"""Lets bridges recognise what they have sent as a person, so that they do not handle it as a new message."""


@dataclass(frozen=True, slots=True)
class PuppetLogin:
    """A person's own token. Times are milliseconds since 1970; `refused_at` is when the homeserver first
    refused the token."""

    login_id: str
    person: str
    made_at: int
    refused_at: int | None = None


def with_source_mark(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content marked as sent by this software for a person."""
    return {**content, SOURCE_KEY: SOURCE}


def has_source_mark(content: Mapping[str, Any]) -> bool:
    """Whether a Palaver node sent the content as a person."""
    return content.get(SOURCE_KEY) == SOURCE


@dataclass(frozen=True, slots=True)
class PersonToken:
    """`user` is the user to act as if the token is not the person's own."""

    token: str = field(repr=False)
    user: str | None = None
    login_id: str | None = None


class DoublePuppets:
    """`key` encrypts stored tokens; None if people cannot log in. `as_token` is that of the second
    registration, if there is one. `excluded` are users of the homeserver that are not people."""

    def __init__(
        self,
        client: HomeserverClient,
        database: Database,
        namespaces: Namespaces,
        *,
        key: bytes | None = None,
        as_token: str | None = None,
        excluded: Collection[str] = (),
        now_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._database = database
        self._namespaces = namespaces
        self._key = key
        self._as_token = as_token
        self._excluded = frozenset(excluded)
        self._now_ms = now_ms

    @property
    def accepts_tokens(self) -> bool:
        return self._key is not None

    @property
    def covers_everyone(self) -> bool:
        """Whether the second registration makes logins unnecessary."""
        return self._as_token is not None

    def is_person(self, user: str) -> bool:
        """Whether the user can be a person of the homeserver."""
        return (
            is_user_id(user)
            and domain(user) == self._namespaces.domain
            and not self._namespaces.owns_user(user)
            and user not in self._excluded
        )

    # -- sending as a person --

    async def can_send_as(self, person: str) -> bool:
        return bool(await self.tokens(person))

    async def tokens(self, person: str) -> list[PersonToken]:
        """Return the tokens for acting as the person, the person's own first. Empty for a user who is not a
        person of the homeserver."""
        if not self.is_person(person):
            return []
        found = []
        row = await self._row(person)
        own = None if row is None or row.refused_at is not None else self._unsealed(row)
        if row is not None and own is not None:
            found.append(PersonToken(own, login_id=row.login_id))
        if self._as_token is not None:
            found.append(PersonToken(self._as_token, person))
        return found

    async def mark_refused(self, person: str, token: PersonToken) -> None:
        """The homeserver refused the token. A person's own token is not used again."""
        if token.login_id is not None:
            async with self._database.autocommit() as connection:
                await mark_puppet_refused(connection, person, token.login_id, self._now_ms())

    # -- logins --

    async def login(self, person: str) -> PuppetLogin | None:
        """Return the person's login. A token that cannot be decrypted with the current key counts as
        refused."""
        row = await self._row(person)
        if row is None:
            return None
        refused_at = row.refused_at
        if refused_at is None and self._unsealed(row) is None:
            refused_at = row.made_at
        return PuppetLogin(row.login_id, row.user_id, row.made_at, refused_at)

    async def log_in(self, person: str, token: str) -> str:
        """Store the token and return the id of the login. Raises `MatrixError` unless the token is valid and
        the person's own."""
        if self._key is None:
            raise MatrixError("M_FORBIDDEN", "This node does not accept access tokens of people.", 403)
        if not 0 < len(token) <= MAX_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
            raise MatrixError("M_INVALID_PARAM", "That is not an access token.")
        user = await token_owner(self._client, token)
        if user is None:
            raise MatrixError("M_INVALID_PARAM", "The homeserver does not know that access token.")
        if user != person or not self.is_person(person):
            raise MatrixError("M_FORBIDDEN", "The access token belongs to another user.", 403)
        login_id = secrets.token_hex(16)
        box = seal(self._key, secrets.token_bytes(NONCE_BYTES), person, token)
        async with self._database.autocommit() as connection:
            await upsert_puppet(connection, PuppetRow(person, login_id, box, self._now_ms()))
        return login_id

    async def log_out(self, person: str, login_id: str) -> bool:
        """Delete the token; return whether the person had it. The person's Matrix session continues."""
        async with self._database.autocommit() as connection:
            return await delete_puppet(connection, person, login_id)

    async def _row(self, person: str) -> PuppetRow | None:
        return await self._database.read(partial(fetch_puppet, user_id=person))

    def _unsealed(self, row: PuppetRow) -> str | None:
        return None if self._key is None else unseal(self._key, row.sealed, row.user_id)
