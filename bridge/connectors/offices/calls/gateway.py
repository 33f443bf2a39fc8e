"""Access to members of offices from outside: their addresses, tasks for them, and calls of their tools."""

from collections.abc import Sequence

from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.connectors.offices.calls.chat_calls import ChatCalls, no_remote_office
from bridge.connectors.offices.calls.direct_call import DirectCalls
from bridge.connectors.offices.calls.member_agents import LocalMember, MemberAgents
from bridge.connectors.offices.calls.tasks import OfficeTasks
from bridge.connectors.offices.federated.shared_offices import SharedOffices
from bridge.connectors.offices.protocol.office import COMPUTER
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.server.server import SmcpServer
from bridge.tasks.service import TaskService


class OfficeGateway:
    """Registers members as agents, delivers tasks to them and runs the calls of people and operators. Start
    it before members can join, and close it after all members have left."""

    def __init__(
        self,
        parts: RoomParts,
        routes: RoutingTable,
        server: SmcpServer,
        records: OfficeRecords,
        shared: SharedOffices | None,
    ) -> None:
        self._server = server
        self._records = records
        self._task_service: TaskService | None = None
        self.calls = DirectCalls(server, records.tools)
        self.tasks = OfficeTasks(server, self._member_at, now_ms=parts.now_ms, report=parts.report)
        remote_office = no_remote_office if shared is None else shared.office_of
        self.chat_calls = ChatCalls(parts, routes, self.calls, remote_office=remote_office)
        self._member_agents = MemberAgents(
            routes,
            parts.database,
            self._local_members,
            before_unregister=self.tasks.wait_until_ended,
            on_available=self._deliver_waiting,
            now_ms=parts.now_ms,
            report=parts.report,
        )
        server.on_members_changed = self._members_changed
        records.on_tools_changed = self._member_agents.members_changed

    def use_task_service(self, tasks: TaskService) -> None:
        self._task_service = tasks
        self.tasks.use_task_service(tasks)

    async def stop_tasks(self) -> None:
        self._task_service = None
        await self.tasks.stop()

    async def start(self) -> None:
        await self._member_agents.start()
        self.chat_calls.start()

    async def close(self) -> None:
        await self.chat_calls.close()
        await self._member_agents.close()

    def reads_tasks(self, address: AgentAddress) -> bool:
        """Whether the address is an Agent that accepts tasks. Computers do not read prompts."""
        member = self._member_at(address)
        return member is not None and member.reads_tasks

    # -- internals --

    def _member_at(self, address: AgentAddress) -> LocalMember | None:
        return self._member_agents.member_at(address)

    def _local_members(self) -> list[LocalMember]:
        """The members connected to this process; each process registers its own."""
        found = []
        for member in self._server.members():
            connection = self._server.connection(member.sid)
            if connection is None:
                continue
            if member.role == COMPUTER:
                tools = self._records.tools(member.office_id, member.name) or ()
                found.append(LocalMember(member, tools=tools))
            else:
                found.append(LocalMember(member, reads_tasks=connection.reads_tasks))
        return found

    def _members_changed(self) -> None:
        self._member_agents.members_changed()
        self.tasks.members_changed()

    async def _deliver_waiting(self, addresses: Sequence[AgentAddress]) -> None:
        """Deliver the tasks that were waiting for these agents."""
        if self._task_service is not None:
            for address in addresses:
                await self._task_service.agent_attached(address)
