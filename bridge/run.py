"""Runs a node: the order in which parts start and stop, and the handling of signals.

Also measures the delay of the event loop, the first sign of an overloaded node.
"""

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import structlog

from bridge.clock import monotonic, now_ms
from bridge.config.config import Config
from bridge.config.settings import listener_settings, tls_files
from bridge.control.socket import ControlSocket
from bridge.node.appservice_backend import AppserviceBackend
from bridge.node.assembly import NodeCore
from bridge.node.backend import NodeBackend
from bridge.node.data_directory import DataDirectory
from bridge.node.database import NodeDatabase
from bridge.node.homeserver_backend import HomeserverBackend, with_plain_http
from bridge.node.portals import Portals
from bridge.observability.health import Health
from bridge.observability.metrics import Metrics
from bridge.observability.metrics_server import MetricsServer
from bridge.observability.observer import ListenerObserver
from bridge.peers.service import AgentPeers
from federation.http.server.listener import Listener, ListenerSettings, bind
from federation.http.server.tls import Tls
from federation.http.services import Node as WireNode
from federation.keys.local_keys import LocalKeyFiles, PublishedKeys
from federation.keys.server_keys import describe
from federation.matrix.canonical_json import encode
from federation.matrix.networks import AdmissionRules
from storage.concurrency import RESTARTS, BackgroundTasks
from storage.errors import LocalError

INTERVAL = 0.5


async def measure_event_loop_lag(observe: Callable[[float], None]) -> None:
    """Until cancelled: sleep, and report how much later the event loop resumed."""
    loop = asyncio.get_running_loop()
    while True:
        asked = loop.time() + INTERVAL
        await asyncio.sleep(INTERVAL)
        observe(max(0.0, loop.time() - asked))


log = structlog.get_logger("palaver")

# Time for stopping beyond the timeout of requests: Postgres writes its last checkpoint.
STOP_TIMEOUT = 45.0
KEYS_ROTATED = "keys-rotated"
"""The topic of notifications between the processes of a node."""
Step = Callable[[str], None]


def log_problem(sentence: str, error: BaseException | None) -> None:
    log.error(sentence, exc_info=error)


class Node:
    """Start once and stop once; parts stop in the reverse order of their start."""

    def __init__(self, config: Config, *, step: Step = lambda _: None) -> None:
        self.config = config
        self.metrics = Metrics()
        self.metrics.registry.register(RESTARTS)
        self.version = version("palaver")
        self._step = step
        self._started_ms = now_ms()
        self._stack = contextlib.AsyncExitStack()
        self._health = Health()
        self._keys_problem: str | None = None
        self.backend = self._make_backend()

    async def start(self) -> None:
        """Return when everything responds. LocalError if the operator has to fix something."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _start(self) -> None:
        config, stack = self.config, self._stack
        self.metrics.information.labels(self.version, config.server_name).set(1)
        stack.enter_context(DataDirectory(config.data_dir))
        files = LocalKeyFiles(config.data_dir)
        self.keys = PublishedKeys(config.server_name, files, files.load_or_create(), now_ms)
        self.tls = Tls(tls_files(config))

        # Bound before the database is used: a taken port is the most common mistake and cheap to detect.
        # Clients that connect from now on wait in the backlog.
        settings = listener_settings(config)
        self._step("opening the port")
        listening = bind(settings.binds, settings.port)
        for bound in listening:
            stack.callback(bound.close)
        stack.push_async_callback(self.backend.close)
        await self.backend.prepare()

        self.database = NodeDatabase(config, self._health, self.metrics)
        self._step("starting the database")
        await self.database.start()
        stack.push_async_callback(self.database.stop)
        stack.callback(self.database.pool.session.subscribe(KEYS_ROTATED, self._reload_keys))

        self.peers = AgentPeers(
            config.server_name,
            config.agent_federation,
            self.database.pool,
            now_ms=now_ms,
            report=log_problem,
            homeserver=config.attached_to,
        )
        await self.peers.start()
        stack.push_async_callback(self.peers.close)
        await self.backend.open(self.database.pool, self.peers)
        # Pushed again, so that it is closed before the parts it depends on.
        stack.push_async_callback(self.backend.close)
        self._step("starting the agents")
        self.core = NodeCore(
            config,
            self.backend,
            self.peers,
            key=lambda: self.keys.keys.current.signing_key,
            metrics=self.metrics,
            version=self.version,
        )
        self.listener = self._make_listener(with_plain_http(settings, self.peers), listening)
        await self.core.start()
        stack.push_async_callback(self.core.close)
        await self.backend.node_started(self.core)
        await self.listener.start()
        stack.push_async_callback(self.listener.close, config.listener.shutdown_timeout)
        self._health.set("listeners", None)

        self.metrics_server: MetricsServer | None = None
        if config.metrics.enabled:
            self.metrics_server = MetricsServer(self.metrics.registry, config.metrics.host, config.metrics.port)
            await self.metrics_server.start()
            stack.push_async_callback(self.metrics_server.stop)

        control = ControlSocket(
            config.data_dir,
            {
                "status": self._status,
                "rotate-keys": self._rotate_keys,
                "reload": self._reload,
                **self.backend.commands(),
                **self.core.commands(),
                **Portals(self.backend, self.core).commands(),
            },
            self.core.streams(),
        )
        await control.start()
        stack.push_async_callback(control.stop)
        background = BackgroundTasks()
        stack.push_async_callback(background.close)
        background.supervise("event loop lag", partial(measure_event_loop_lag, self.metrics.lag.observe))

    def _make_backend(self) -> NodeBackend:
        if self.config.attached_to is not None:
            return AppserviceBackend(
                self.config, metrics=self.metrics, health=self._health, now_ms=now_ms, step=self._step
            )
        return HomeserverBackend(
            self.config,
            keys=lambda: self.keys.keys,
            metrics=self.metrics.federation,
            version=self.version,
            now_ms=now_ms,
        )

    def _make_listener(self, settings: ListenerSettings, listening: Sequence[socket.socket]) -> Listener:
        wire = WireNode(
            own_keys=lambda: encode(self.keys.document()),
            readiness=self._health.readiness,
            version=self.version,
            rules=AdmissionRules(settings.plain_networks),
            delegated_name=self.config.federation.delegate,
        )
        app = self.backend.make_app(wire, settings.limits)
        self.core.serve(app)
        return Listener(app, settings, self.tls, ListenerObserver(self.metrics), listening=listening)

    async def stop(self) -> None:
        self._health.set("listeners", "The node is stopping.")
        await self._stack.aclose()

    def reload(self) -> LocalError | None:
        """Read all certificates again. Problems are logged, and the old certificates stay in use."""
        problem = self.tls.reload() or self._reload_authorities()
        if problem is None:
            log.info("Reloaded the certificates.")
        else:
            log.error("A new certificate is invalid; the old one stays in use.", problem=str(problem))
        return problem

    def _reload_authorities(self) -> LocalError | None:
        try:
            self.backend.reload()
        except LocalError as error:
            return error
        return None

    def summary(self) -> dict[str, Any]:
        """The first facts for a person."""
        config = self.config
        addresses = [str(address) for address in self.listener.addresses]
        metrics = self.metrics_server.address if self.metrics_server is not None else None
        return {
            "server_name": config.server_name,
            "version": self.version,
            "addresses": addresses,
            "metrics": None if metrics is None else f"http://{metrics[0]}:{metrics[1]}/metrics",
            "data_dir": str(config.data_dir),
            "database": self.database.describe(),
            "key_id": self.keys.keys.current.key_id,
            "certificate": "development" if config.listener.certificate is None else "configured",
            **self.backend.summary(),
        }

    async def _status(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        checks = self._health.readiness().checks
        is_ready = all(sentence is None for sentence in checks.values())
        return {
            **self.summary(),
            "ready": is_ready,
            "set_aside": await self.database.set_aside() if is_ready else [],
            "checks": {name: sentence or "fine" for name, sentence in checks.items()},
            "agents_in_error": self.core.agents_in_error(),
            "up_seconds": (now_ms() - self._started_ms) // 1000,
            **await self.backend.status(),
        }

    async def _rotate_keys(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        keys = self.keys.rotate()
        log.info("Rotated the signing key.", key_id=keys.current.key_id)
        self.database.pool.session.notify(KEYS_ROTATED)
        return describe(keys)

    def _reload_keys(self, _: str | None) -> None:
        """Another process of this node may have rotated the keys."""
        problem = None
        try:
            if self.keys.reload():
                log.info("Another process rotated the signing key.", key_id=self.keys.keys.current.key_id)
        except LocalError as error:
            problem = str(error)
            if problem != self._keys_problem:
                log.error("Failed to reload the signing key; the old one stays in use.", problem=problem)
        self._keys_problem = problem

    async def _reload(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        problem = self.reload()
        if problem is not None:
            raise problem
        return {"certificates": "read again"}


async def run(config: Config, *, step: Step, announce: Callable[[Mapping[str, Any]], None]) -> None:
    """Start a node, and stop it on SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_requested.set)
    node = Node(config, step=step)
    # Ignore the signal until there is a certificate to reload.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)

    background = BackgroundTasks()
    starting = background.spawn("start the node", node.start(), reports=False)
    stopping = background.spawn("wait for a signal", stop_requested.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        log.info("Stopped before the start was complete.")
        return
    try:
        starting.result()
    except BaseException:
        await background.close()
        raise

    loop.add_signal_handler(signal.SIGHUP, node.reload)
    # Current objects are permanent, so exclude them from future full collections, which block the event loop.
    gc.collect()
    gc.freeze()
    announce(node.summary())
    log.info("Started.", server_name=config.server_name, version=node.version)
    await stopping
    log.info("Stopping.")
    began = monotonic()
    async with asyncio.timeout(config.listener.shutdown_timeout + STOP_TIMEOUT):
        await node.stop()
    log.info("Stopped.", seconds=round(monotonic() - began, 3))
