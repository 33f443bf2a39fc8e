"""What a guest does for the people on its homeserver: it speaks for those who let it, and answers the
programs that show them their bridges."""

from collections.abc import Callable

import structlog
from aiohttp import web

from appservice.appservice import Appservice
from appservice.homeserver.accounts import ask
from appservice.homeserver.client import open_session
from appservice.people import double_puppets
from appservice.people.double_puppets import Puppets
from appservice.people.send_as_person import Speaking
from appservice.registration.check import WHOAMI
from appservice.registration.namespaces import Namespaces
from appservice.registration.registration import Registration
from bridge.agents.agent import Agent
from bridge.agents.routing_table import RoutingTable
from bridge.clock import monotonic
from bridge.config.config import Config
from bridge.config.people import rights, wanted_puppets
from bridge.matrix.ghost import AppserviceGhostNames
from bridge.matrix.ghosts import Ghosts
from bridge.node.registration import DOUBLE_PUPPET, load
from bridge.observability.report import Report
from bridge.provisioning.authorization import Authentication
from bridge.provisioning.direct_chats import DirectChats
from bridge.provisioning.login import load_or_make_key, load_shared_secret
from bridge.provisioning.routes import serve
from bridge.provisioning.services import Door, ProvisioningServices
from storage.errors import LocalError

log = structlog.get_logger("palaver.people")


class AppservicePeople:
    """It is prepared before there is a database, and opened when the homeserver is there."""

    speaks: Speaking

    def __init__(
        self, config: Config, namespaces: Namespaces, *, now_ms: Callable[[], int], report: Report
    ) -> None:
        self._config = config
        self._namespaces = namespaces
        self._now_ms = now_ms
        self._report = report
        self._door = Door()
        self._secret: str | None = None
        self._key: bytes | None = None
        self._all: Registration | None = None

    def prepare(self) -> None:
        """LocalError when a file cannot be used."""
        config = self._config
        if config.provisioning.enabled and config.provisioning.shared_secret is not None:
            self._secret = load_shared_secret(config.provisioning.shared_secret)
        if config.double_puppet.tokens:
            self._key = load_or_make_key(config.data_dir)
        if config.double_puppet.enabled:
            self._all = self._load()

    def _load(self) -> Registration:
        section = self._config.double_puppet
        registration = load(section.registration, DOUBLE_PUPPET)
        found = double_puppets.differences(registration, wanted_puppets(section, self._config.appservice))
        if found:
            raise LocalError(
                f"The registration {section.registration} is not what the configuration wants."
                f" {' '.join(found)}",
                f"Write it anew with `palaver registration{DOUBLE_PUPPET}`, let the homeserver read it and"
                " start it again.",
            )
        return registration

    def serve(self, app: web.Application) -> None:
        """Whoever comes before the node works is to come again."""
        if self._config.provisioning.enabled:
            serve(app, self._door)

    async def open(self, guest: Appservice) -> None:
        """It speaks from here on."""
        self._guest = guest
        senders = [guest.registration.secrets.sender_localpart]
        if self._all is not None:
            senders.append(self._all.secrets.sender_localpart)
            await self._check(self._all)
        self._puppets = Puppets(
            guest.client,
            guest.database,
            self._namespaces,
            key=self._key,
            as_token=None if self._all is None else self._all.secrets.as_token,
            others=[f"@{sender}:{self._namespaces.domain}" for sender in senders],
            now_ms=self._now_ms,
        )
        self.speaks = Speaking(guest.client, guest.known, self._puppets)

    async def _check(self, registration: Registration) -> None:
        """Agents work without it, and what would be said in a person's name the node says then."""
        async with open_session() as session:
            heard = await ask(session, "GET", self._guest.client.url + WHOAMI, registration.secrets.as_token)
        path = str(self._config.double_puppet.registration)
        wrong = double_puppets.wrong_whoami(heard, registration, path, self._namespaces.domain)
        if wrong is not None:
            log.error("Nothing can be said in people's names.", reason=wrong)

    def move_in(
        self,
        routes: RoutingTable,
        ghosts: Ghosts,
        *,
        name_of: Callable[[Agent], str | None],
        is_of_agents: Callable[[str], bool],
    ) -> None:
        names, guest, config = AppserviceGhostNames(self._namespaces), self._guest, self._config
        self._door.move_in(
            ProvisioningServices(
                authentication=Authentication(
                    guest.client,
                    rights(config.people, config.permissions),
                    homeserver=self._namespaces.domain,
                    is_person=self._puppets.is_person,
                    secret=self._secret,
                    monotonic=monotonic,
                ),
                puppets=self._puppets,
                chats=DirectChats(
                    guest.rooms,
                    guest.database,
                    ghosts,
                    names,
                    speaks=self.speaks,
                    is_of_agents=is_of_agents,
                    report=self._report,
                ),
                side=guest.rooms,
                routes=routes,
                names=names,
                name_of=name_of,
                prefix=config.people.prefix,
                monotonic=monotonic,
            )
        )

    async def close(self) -> None:
        await self._door.close()
