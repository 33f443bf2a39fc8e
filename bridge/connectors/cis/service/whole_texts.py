"""Brings tasks that have come from other nodes to agents of this one, with their texts as they were."""

from bridge.connectors.cis.service.long_texts import whole
from bridge.connectors.cis.settings import NAME
from bridge.matrix_side import MatrixSide
from bridge.task import Task
from bridge.task_error import TaskError
from bridge.task_ports import Delivery, DeliveryOutcome, NotNow, Rejected
from federation.errors import MatrixError, PeerError


class WholeTexts:
    """Satisfies `bridge.task_ports.Delivery`, in front of another one."""

    def __init__(self, side: MatrixSide, delivery: Delivery) -> None:
        self._side = side
        self._delivery = delivery

    async def deliver(self, task: Task) -> DeliveryOutcome:
        if task.request.origin.protocol != NAME:
            return await self._delivery.deliver(task)
        try:
            read = await whole(self._side, task)
        except (MatrixError, PeerError):
            return NotNow("A text of the task could not be fetched from the node that has sent it.")
        if isinstance(read, TaskError):
            return Rejected(read)
        return await self._delivery.deliver(read)

    async def cancel(self, task: Task) -> bool:
        return await self._delivery.cancel(task)
