"""Serves `/metrics` on its own address, so that federating servers cannot read it."""

import errno

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from storage.errors import LocalError


class MetricsServer:
    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        self._registry = registry
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as error:
            await self.stop()
            raise self._cannot_listen(error) from None

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def address(self) -> tuple[str, int] | None:
        """The actual address; if the configured port is 0, only the socket knows it."""
        if self._runner is None or not self._runner.addresses:
            return None
        host, port = self._runner.addresses[0][:2]
        return host, port

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    def _cannot_listen(self, error: OSError) -> LocalError:
        where = f"{self._host} port {self._port}"
        if error.errno == errno.EADDRINUSE:
            return LocalError(
                f"The metrics can't be served: {where} is taken by another process.",
                "Choose another metrics.port, or set metrics.enabled = false.",
            )
        return LocalError(
            f"The metrics can't be served on {where}: {error.strerror}.", "Correct metrics.host and metrics.port."
        )
