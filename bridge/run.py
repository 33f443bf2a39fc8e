"""The life of a node: what starts in which order, what a signal does, and the same order backwards.

How late the event loop runs: what a person notices first when a node is overloaded.
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
    """Until cancelled: ask to be woken, and report how much later it happened."""
    loop = asyncio.get_running_loop()
    while True:
        asked = loop.time() + INTERVAL
        await asyncio.sleep(INTERVAL)
        observe(max(0.0, loop.time() - asked))


log = structlog.get_logger("palaver")

# What stopping may take beyond the time that requests are given: Postgres writes its last checkpoint.
STOP_PATIENCE = 45.0
KEYS_ROTATED = "keys-rotated"
"""The topic of notifications between the processes of a node."""
Step = Callable[[str], None]


def log_problem(sentence: str, error: BaseException | None) -> None:
    log.error(sentence, exc_info=error)


class Node:
    """Started once, stopped once; whoever is started later is stopped earlier."""

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
        self.backend = self._make_carrier()

    async def start(self) -> None:
        """Returns when everything answers. LocalError when a person has to put something right."""
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

        # Bound before the database is touched: a taken port is the commonest mistake and cheap to find. Who
        # connects from now on waits until there is something to answer with.
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
            guest_of=config.guest_of,
        )
        await self.peers.start()
        stack.push_async_callback(self.peers.close)
        await self.backend.open(self.database.pool, self.peers)
        # Once more: it is closed before what it stands on.
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
            self.metrics_server = MetricsServer(
                self.metrics.registry, config.metrics.host, config.metrics.port
            )
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

    def _make_carrier(self) -> NodeBackend:
        if self.config.guest_of is not None:
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
        """Read all certificates again. What is wrong with one is logged, and the old ones stay."""
        problem = self.tls.reload() or self._reload_authorities()
        if problem is None:
            log.info("The certificates were read again.")
        else:
            log.error("A new certificate can't be used; the old one stays.", problem=str(problem))
        return problem

    def _reload_authorities(self) -> LocalError | None:
        try:
            self.backend.reload()
        except LocalError as error:
            return error
        return None

    def summary(self) -> dict[str, Any]:
        """What a person wants to know first."""
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
            "up_seconds": (now_ms() - self._started_ms) // 1000,
            **await self.backend.status(),
        }

    async def _rotate_keys(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        keys = self.keys.rotate()
        log.info("The signing key was rotated.", key_id=keys.current.key_id)
        self.database.pool.session.notify(KEYS_ROTATED)
        return describe(keys)

    def _reload_keys(self, _: str | None) -> None:
        """Another process of this node may have rotated them."""
        problem = None
        try:
            if self.keys.reload():
                log.info("The signing key was rotated elsewhere.", key_id=self.keys.keys.current.key_id)
        except LocalError as error:
            problem = str(error)
            if problem != self._keys_problem:
                log.error("The signing key can't be read again; the old one stays.", problem=problem)
        self._keys_problem = problem

    async def _reload(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        problem = self.reload()
        if problem is not None:
            raise problem
        return {"certificates": "read again"}


async def run(config: Config, *, step: Step, announce: Callable[[Mapping[str, Any]], None]) -> None:
    """From nothing to a running node, and back to nothing on SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    leave = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave.set)
    node = Node(config, step=step)
    # Before there is a certificate to read again, the signal must not end the process.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)

    background = BackgroundTasks()
    starting = background.spawn("start the node", node.start(), reports=False)
    leaving = background.spawn("wait for a signal", leave.wait())
    await asyncio.wait({starting, leaving}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        log.info("Stopped before it had started.")
        return
    try:
        starting.result()
    except BaseException:
        await background.close()
        raise

    loop.add_signal_handler(signal.SIGHUP, node.reload)
    # What there is now stays: a full collection, which everything waits for, need not look at it again.
    gc.collect()
    gc.freeze()
    announce(node.summary())
    log.info("Started.", server_name=config.server_name, version=node.version)
    await leaving
    log.info("Stopping.")
    began = monotonic()
    async with asyncio.timeout(config.listener.shutdown_timeout + STOP_PATIENCE):
        await node.stop()
    log.info("Stopped.", seconds=round(monotonic() - began, 3))
