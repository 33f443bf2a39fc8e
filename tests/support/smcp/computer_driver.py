"""Runs in a published environment's Python: one published Computer, controlled as `driving` describes."""

import asyncio
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

# Imported first: it redirects stdout, because the package prints while it is imported.
from driving import Driver

# isort: split
import a2c_smcp
from a2c_smcp.computer.computer import Computer
from a2c_smcp.computer.mcp_clients.model import StdioServerConfig, ToolMeta
from a2c_smcp.computer.socketio.client import SMCPComputerClient
from mcp import StdioServerParameters

NAMESPACE = "/smcp"
TOOLS = Path(__file__).with_name("tools_server.py")
SERVER = "tools"
# 0.1 had none.
HAS_HANDSHAKE = hasattr(a2c_smcp, "PROTOCOL_VERSION")


class ComputerDriver(Driver):
    def __init__(self) -> None:
        super().__init__()
        self.computer = None
        self.client = None

    async def do_boot(self, name: str) -> None:
        """Start the Computer with its tools. Its files are in the process's working directory."""
        here = Path.cwd()
        config = StdioServerConfig(
            name=SERVER,
            server_parameters=StdioServerParameters(
                command=sys.executable, args=[str(TOOLS)], env={"TOOLS_TELL": str(self._listen(here / "told"))}
            ),
            # Without it every call waits for a confirmation at the Computer.
            default_tool_meta=ToolMeta(auto_apply=True),
        )
        options = {"name": name, "mcp_servers": {config}}
        if "flag_settings_path" in inspect.signature(Computer).parameters:
            landing = here / "landing"
            landing.mkdir(exist_ok=True)
            settings = here / "settings.json"
            settings.write_text(json.dumps({"landingRoot": str(landing)}))
            options["flag_settings_path"] = settings
        self.computer = Computer(**options)
        await self.computer.boot_up()

    def _listen(self, path: Path) -> Path:
        """Read a pipe: each line that a tool writes becomes a report at once."""
        os.mkfifo(path)
        # Open for writing too, or it would end with the first tool that closes it.
        pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(pipe, self._told, pipe)
        return path

    def _told(self, pipe: int) -> None:
        for line in os.read(pipe, 65536).decode().splitlines():
            self.report("tool", json.loads(line))

    async def do_connect(self, url: str, token: str | None, headers: dict[str, str] | None = None) -> Any:
        delays = {"reconnection_delay": 0.1, "reconnection_delay_max": 0.4, "randomization_factor": 0}
        kept = {"computer": self.computer, **delays}
        self.client = self.watched(SMCPComputerClient)(handle_sigint=False, **kept)
        # The package leaves this to its caller. In 0.1 the credential was in a header.
        shown = {"auth": {"token": token}} if HAS_HANDSHAKE else {}
        headers = {**(headers or {}), **({} if shown else {"x-api-key": token})}
        await self.client.connect(url, headers=headers, namespaces=[NAMESPACE], **shown)
        return {"transport": self.client.transport(), "sid": self.client.get_sid(NAMESPACE)}

    async def do_join(self, office: str) -> None:
        await self.client.join_office(office)

    async def do_leave(self, office: str) -> None:
        """Return once it is sent: published Computers read no acknowledgement."""
        await self.client.leave_office(office)

    async def do_disconnect(self) -> None:
        await self.client.disconnect()

    async def do_reconnect(self) -> Any:
        return await self.reconnect(self.client)

    async def do_update_config(self) -> None:
        await self.client.emit_update_config()

    async def do_update_config_unasked(self) -> None:
        """Send the update, which is sent even outside an office."""
        await self.client.update_config()

    async def do_update_tools(self) -> None:
        await self.client.emit_update_tool_list()

    async def do_update_desktop(self) -> None:
        await self.client.emit_refresh_desktop()

    async def do_update_skills(self) -> None:
        await self.client.emit_update_skills()

    async def end(self) -> None:
        if self.client is not None and self.client.connected:
            await self.client.disconnect()
        if not HAS_HANDSHAKE:
            # The shutdown of 0.1 waits for itself. Its tools end with this process.
            os._exit(0)
        if self.computer is not None:
            await self.computer.shutdown()


async def main() -> None:
    await ComputerDriver().run()


if __name__ == "__main__":
    asyncio.run(main())
