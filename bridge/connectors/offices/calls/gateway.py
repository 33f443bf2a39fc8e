"""How members of offices are reached by who is in none: their addresses, tasks for them, and calls of their
tools."""

from collections.abc import Sequence

from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.connectors.offices.calls.chat_calls import Ordering, nowhere
from bridge.connectors.offices.calls.direct_call import DirectCalls
from bridge.connectors.offices.calls.member_agents import Addresses, Seat
from bridge.connectors.offices.calls.tasks import OfficeTasks
from bridge.connectors.offices.federated.shared_offices import SharedOffices
from bridge.connectors.offices.protocol.office import COMPUTER
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.server.server import SmcpServer
from bridge.tasks.service import TaskService


class Reaching:
    """It is started when members may come, and told when nobody is heard any more; it is closed when all of
    them have left."""

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
        self.tasks = OfficeTasks(server, self._seat, now_ms=parts.now_ms, report=parts.report)
        elsewhere = nowhere if shared is None else shared.office_of
        self.ordering = Ordering(parts, routes, self.calls, office_elsewhere=elsewhere)
        self._addresses = Addresses(
            routes,
            parts.database,
            self._seats,
            parting=self.tasks.parting,
            came=self._came,
            now_ms=parts.now_ms,
            report=parts.report,
        )
        server.moved = self._moved
        records.learned = self._addresses.moved

    def use_task_service(self, task_service: TaskService) -> None:
        self._task_service = task_service
        self.tasks.use_task_service(task_service)

    async def stop_work(self) -> None:
        self._task_service = None
        await self.tasks.stop()

    async def start(self) -> None:
        await self._addresses.start()
        self.ordering.start()

    async def close(self) -> None:
        await self.ordering.close()
        await self._addresses.close()

    def reads_tasks(self, address: AgentAddress) -> bool:
        """Whether the Agent there does; nobody else does."""
        seat = self._seat(address)
        return seat is not None and seat.reads_tasks

    # -- inside --

    def _seat(self, address: AgentAddress) -> Seat | None:
        return self._addresses.seat(address)

    def _seats(self) -> list[Seat]:
        """Of who is connected to this process: others have their addresses from elsewhere."""
        found = []
        for member in self._server.members():
            connection = self._server.connection(member.sid)
            if connection is None:
                continue
            if member.role == COMPUTER:
                found.append(Seat(member, tools=self._records.tools(member.office_id, member.name) or ()))
            else:
                found.append(Seat(member, reads_tasks=connection.reads_tasks))
        return found

    def _moved(self) -> None:
        self._addresses.moved()
        self.tasks.moved()

    async def _came(self, addresses: Sequence[AgentAddress]) -> None:
        """What was meant for them before is brought to them now."""
        if self._task_service is not None:
            for address in addresses:
                await self._task_service.agent_attached(address)
