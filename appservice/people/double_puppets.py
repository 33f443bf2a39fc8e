"""A second registration, by which a homeserver lets this node speak as the people on it.

The first one is for agents and reserves their names. This one reserves nothing and is sent nothing: it is a
token that may say `user_id` of any user of the homeserver, and whoever has it is all of them.

The people as whom this node may speak: those who gave it a token, or all of the homeserver by the second
registration.
"""

import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from appservice.homeserver.accounts import owner
from appservice.homeserver.client import HomeserverClient
from appservice.registration.check import Heard, NoAnswer
from appservice.registration.namespaces import Namespaces
from appservice.registration.registration import Registration, Reserved, Secrets
from appservice.registration.tokens import MOST_TOKEN, NONCE_BYTES, opened, sealed
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_user_id
from storage.database import Database
from storage.people.double_puppets import (
    PuppetRow,
    delete_puppet,
    fetch_puppet,
    mark_puppet_refused,
    upsert_puppet,
)

SOURCE_KEY: Final = "fi.mau.double_puppet_source"
SOURCE: Final = "palaver"
"""By which bridges know what they have said themselves in a person's name, and take it for nothing new."""


@dataclass(frozen=True, slots=True)
class Login:
    """That a person has given a token of his own. Times are milliseconds since 1970; `refused_at` is since
    when the homeserver does not take it any more."""

    login_id: str
    person: str
    made_at: int
    refused_at: int | None = None


@dataclass(frozen=True, slots=True)
class WantedPuppets:
    """What the configuration says: under which id, and what the homeserver is called."""

    id: str
    domain: str


def make(wanted: WantedPuppets, secrets: Secrets) -> Registration:
    """As the configuration wants it."""
    return Registration(
        wanted.id,
        # "url: […] Optionally set to null if no traffic is required."
        None,
        secrets,
        (Reserved(f"^@.*:{re.escape(wanted.domain)}$", exclusive=False),),
        (),
        receive_ephemeral=False,
        rate_limited=False,
        protocols=(),
    )


def differences(registration: Registration, wanted: WantedPuppets) -> tuple[str, ...]:
    """How the file and the configuration part: sentences that name both."""
    given = make(wanted, registration.secrets)
    found = []
    if registration.id != given.id:
        found.append(
            f"The file for double puppets registers “{registration.id}”, and the configuration says"
            f" “{given.id}”."
        )
    if registration.url is not None:
        found.append(
            f"The file for double puppets sends the homeserver to {registration.url}: its url has to be"
            " null, or everything would come twice."
        )
    if registration.users != given.users:
        found.append(
            f"The file for double puppets has other users than {given.users[0].regex}, which is not"
            " exclusive."
        )
    if registration.aliases or registration.rooms:
        found.append("The file for double puppets reserves aliases or rooms, and has to reserve nothing.")
    if registration.rate_limited:
        found.append("The file for double puppets has no `rate_limited: false`.")
    return tuple(found)


def marked(content: Mapping[str, Any]) -> dict[str, Any]:
    """What is said in a person's name."""
    return {**content, SOURCE_KEY: SOURCE}


def is_marked(content: Mapping[str, Any]) -> bool:
    """Whether a Palaver has said it in a person's name."""
    return content.get(SOURCE_KEY) == SOURCE


def wrong_whoami(heard: Heard, registration: Registration, path: str, domain: str) -> str | None:
    """A sentence for the operator; None if the homeserver knows the token for what it is. `path` is the
    file."""
    if isinstance(heard, NoAnswer):
        return f"The homeserver did not answer whose token that for double puppets is ({heard.reason})."
    if heard.status in (401, 403):
        return (
            f"The homeserver does not know the token for double puppets ({heard.errcode}): name {path} in its"
            " configuration too and start it again, or set double_puppet.enabled = false."
        )
    user = heard.body.get("user_id")
    if heard.status != 200 or not isinstance(user, str):
        return f"The homeserver did not say whose token that for double puppets is ({heard.errcode})."
    if user != f"@{registration.secrets.sender_localpart}:{domain}":
        return (
            "The homeserver knows the token for double puppets as another one's: it reads another file than"
            f" {path}."
        )
    return None


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
            async with self._database.autocommit() as connection:
                await mark_puppet_refused(connection, person, token.login_id, self._now_ms())

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
        async with self._database.autocommit() as connection:
            await upsert_puppet(connection, PuppetRow(person, login_id, box, self._now_ms()))
        return login_id

    async def take_back(self, person: str, login_id: str) -> bool:
        """Whether the person had it. The session of which it is goes on: it is the person's."""
        async with self._database.autocommit() as connection:
            return await delete_puppet(connection, person, login_id)

    async def _row(self, person: str) -> PuppetRow | None:
        return await self._database.read(partial(fetch_puppet, user_id=person))

    def _opened(self, row: PuppetRow) -> str | None:
        return None if self._key is None else opened(self._key, row.sealed, row.user_id)
