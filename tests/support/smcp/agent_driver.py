"""Runs in a published environment's Python: one published Agent, controlled as `driving` describes."""

import asyncio
import base64
import hashlib
from typing import Any

# Imported first: it redirects stdout, because the package prints while it is imported.
from driving import Driver

# isort: split
from a2c_smcp.agent import AsyncSMCPAgentClient, DefaultAgentAuthProvider

NAMESPACE = "/smcp"


class AgentDriver(Driver):
    def __init__(self) -> None:
        super().__init__()
        self.client = None
        self.agent = None

    async def do_connect(
        self,
        url: str,
        token: str | None,
        agent: str,
        office: str,
        headers: dict[str, str] | None = None,
        reads_tasks: bool = False,
    ) -> Any:
        """`agent` is the name in the requests; the name in the office comes with `join`. With `reads_tasks`,
        it declares that it accepts tasks, as far as the package allows, and answers each with its text."""
        report = self.report

        class Client(self.watched(AsyncSMCPAgentClient)):
            def create_tool_call_request(self, *args: Any, **kwargs: Any) -> Any:
                request = super().create_tool_call_request(*args, **kwargs)
                # Only this shows its number, without which no call can be cancelled.
                report("calling", request)
                return request

        declared = {"auth_data": {"palaver": {"tasks": True}}} if reads_tasks else {}
        provider = DefaultAgentAuthProvider(
            agent_id=agent, office_id=office, api_key=token, extra_headers=headers, **declared
        )
        self.agent = agent
        self.client = Client(
            provider, None, handle_sigint=False,
            reconnection_delay=0.1, reconnection_delay_max=0.4, randomization_factor=0,
        )  # fmt: skip
        if reads_tasks:
            self.client.on("palaver:task", self._work, namespace=NAMESPACE)
        await self.client.connect_to_server(url)
        return {"transport": self.client.transport(), "sid": self.client.get_sid(NAMESPACE)}

    async def _work(self, task: Any) -> Any:
        return {"success": True, "output": f"did {task['prompt']}"}

    async def do_join(self, office: str, name: str) -> None:
        """Return once it is sent: published Agents read no acknowledgement."""
        await self.client.join_office(office, name, namespace=NAMESPACE)

    async def do_leave(self, office: str) -> None:
        await self.client.leave_office(office, namespace=NAMESPACE)

    async def do_disconnect(self) -> None:
        await self.client.disconnect()

    async def do_reconnect(self) -> Any:
        return await self.reconnect(self.client)

    async def do_list(self, office: str) -> Any:
        return await self.client.get_computers_in_office(office)

    async def do_tools(self, computer: str) -> Any:
        return await self.client.get_tools_from_computer(computer)

    async def do_config(self, computer: str) -> Any:
        if hasattr(self.client, "get_config_from_computer"):
            return await self.client.get_config_from_computer(computer)
        # Before 0.3 the event exists, and no method for it.
        request = self.client.create_get_tools_request(computer)
        return await self.client.call("client:get_config", request, namespace=NAMESPACE)

    async def do_desktop(self, computer: str, size: int | None = None, window: str | None = None) -> Any:
        return await self.client.get_desktop_from_computer(computer, size=size, window=window)

    async def do_resources(self, computer: str, mcp_server: str, cursor: str | None = None) -> Any:
        return await self.client.get_resources(computer, mcp_server, cursor)

    async def do_skills(self, computer: str) -> Any:
        return await self.client.get_skills(computer)

    async def do_skill(self, computer: str, name: str, rel_path: str | None = None) -> Any:
        return await self.client.get_skill(computer, name, rel_path)

    async def do_get_blob(
        self, computer: str, handle: str, chunk_offset: int = 0, max_chunk_bytes: int | None = None
    ) -> Any:
        return await self.client.get_blob(computer, handle, chunk_offset=chunk_offset, max_chunk_bytes=max_chunk_bytes)

    async def do_put_blob(
        self, computer: str, data: str, name_hint: str | None = None, chunk_size: int | None = None
    ) -> Any:
        """`data` is in base64."""
        return await self.client.put_blob(computer, base64.b64decode(data), name_hint=name_hint, chunk_size=chunk_size)

    async def do_call(self, computer: str, tool: str, params: dict[str, Any], limit: int) -> Any:
        """Return the result; binary parts are replaced by their digest."""
        result = (await self.client.emit_tool_call(computer, tool, params, limit)).model_dump(mode="json")
        for item in result["content"]:
            if item.get("data"):
                data = base64.b64decode(item.pop("data"))
                item.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        return result

    async def do_cancel(self, req_id: str) -> None:
        """The published class never cancels by itself, except on a timeout."""
        await self.client.emit("server:tool_call_cancel", {"agent": self.agent, "req_id": req_id}, namespace=NAMESPACE)

    async def end(self) -> None:
        if self.client is not None and self.client.connected:
            await self.client.disconnect()


async def main() -> None:
    await AgentDriver().run()


if __name__ == "__main__":
    asyncio.run(main())
