"""What an attached node does for the people of its homeserver: it sends as those who allow it, and serves the
provisioning API."""

from collections.abc import Callable

import structlog
from aiohttp import web

from appservice.appservice import Appservice
from appservice.homeserver.accounts import ask
from appservice.homeserver.client import open_session
from appservice.people.double_puppets import DoublePuppets
from appservice.people.send_as_person import PersonSender
from appservice.registration import double_puppets
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
from bridge.provisioning.login import load_or_create_key, load_shared_secret
from bridge.provisioning.routes import serve
from bridge.provisioning.services import ProvisioningServices, ServicesHolder
from storage.errors import LocalError

log = structlog.get_logger("palaver.people")


class AppservicePeople:
    """Call `prepare` before there is a database, and `open` once the homeserver is available."""

    person_sender: PersonSender

    def __init__(self, config: Config, namespaces: Namespaces, *, now_ms: Callable[[], int], report: Report) -> None:
        self._config = config
        self._namespaces = namespaces
        self._now_ms = now_ms
        self._report = report
        self._provisioning = ServicesHolder()
        self._secret: str | None = None
        self._key: bytes | None = None
        self._all: Registration | None = None

    def prepare(self) -> None:
        """LocalError if a file cannot be used."""
        config = self._config
        if config.provisioning.enabled and config.provisioning.shared_secret is not None:
            self._secret = load_shared_secret(config.provisioning.shared_secret)
        if config.double_puppet.tokens:
            self._key = load_or_create_key(config.data_dir)
        if config.double_puppet.enabled:
            self._all = self._load()

    def _load(self) -> Registration:
        section = self._config.double_puppet
        registration = load(section.registration, DOUBLE_PUPPET)
        found = double_puppets.differences(registration, wanted_puppets(section, self._config.appservice))
        if found:
            raise LocalError(
                f"The registration {section.registration} does not match the configuration. {' '.join(found)}",
                f"Write it again with `palaver registration{DOUBLE_PUPPET}`, copy it to the homeserver and"
                " restart the homeserver.",
            )
        return registration

    def serve(self, app: web.Application) -> None:
        """Requests before the node has started get a 503."""
        if self._config.provisioning.enabled:
            serve(app, self._provisioning)

    async def open(self, appservice: Appservice) -> None:
        """From now on the node can send as people."""
        self._guest = appservice
        senders = [appservice.registration.secrets.sender_localpart]
        if self._all is not None:
            senders.append(self._all.secrets.sender_localpart)
            await self._check(self._all)
        self._puppets = DoublePuppets(
            appservice.client,
            appservice.database,
            self._namespaces,
            key=self._key,
            as_token=None if self._all is None else self._all.secrets.as_token,
            excluded=[f"@{sender}:{self._namespaces.domain}" for sender in senders],
            now_ms=self._now_ms,
        )
        self.person_sender = PersonSender(appservice.client, appservice.known_rooms, self._puppets)

    async def _check(self, registration: Registration) -> None:
        """A failed check is only logged: agents work without it, and the node sends as itself instead."""
        async with open_session() as session:
            result = await ask(session, "GET", self._guest.client.url + WHOAMI, registration.secrets.as_token)
        path = str(self._config.double_puppet.registration)
        problem = double_puppets.whoami_problem(result, registration, path, self._namespaces.domain)
        if problem is not None:
            log.error("The node cannot send messages as people.", reason=problem)

    def start(
        self,
        routes: RoutingTable,
        ghosts: Ghosts,
        *,
        name_of: Callable[[Agent], str | None],
        is_of_agents: Callable[[str], bool],
    ) -> None:
        names, appservice, config = AppserviceGhostNames(self._namespaces), self._guest, self._config
        self._provisioning.set_services(
            ProvisioningServices(
                authentication=Authentication(
                    appservice.client,
                    rights(config.people, config.permissions),
                    homeserver=self._namespaces.domain,
                    is_person=self._puppets.is_person,
                    secret=self._secret,
                    monotonic=monotonic,
                ),
                puppets=self._puppets,
                chats=DirectChats(
                    appservice.local_users,
                    appservice.database,
                    ghosts,
                    names,
                    person_sender=self.person_sender,
                    is_of_agents=is_of_agents,
                    report=self._report,
                ),
                side=appservice.local_users,
                routes=routes,
                names=names,
                name_of=name_of,
                prefix=config.people.prefix,
                monotonic=monotonic,
            )
        )

    async def close(self) -> None:
        await self._provisioning.close()
