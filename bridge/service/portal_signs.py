"""Lets each room of agents say that it is a bridge, and which one."""

from collections.abc import Mapping

from bridge.ghost_names import GhostNames
from bridge.matrix_side import MatrixSide
from bridge.portal_sign import TYPES, content, state_key
from bridge.service.session import Report
from federation.errors import MatrixError
from storage.connecting import ConnectionLost


class PortalSigns:
    """A sign that cannot be put up or taken down is told of, and is no harm to anything else."""

    def __init__(self, side: MatrixSide, names: GhostNames, report: Report) -> None:
        self._side = side
        self._names = names
        self._report = report

    async def put_up(self, rooms: Mapping[str, str]) -> None:
        """`rooms` are ids by namespace. Nothing is sent where it is so already."""
        profile = await self._profile()
        for namespace, room_id in rooms.items():
            avatar_url = profile.get("avatar_url")
            said = content(
                self._names.node_id,
                namespace,
                self._names.node_user,
                avatar_url=avatar_url if isinstance(avatar_url, str) else None,
            )
            await self._set(room_id, namespace, said)

    async def take_down(self, namespace: str, room_id: str) -> None:
        """By saying nothing: state does not go away."""
        await self._set(room_id, namespace, {})

    async def _set(self, room_id: str, namespace: str, said: Mapping[str, object]) -> None:
        key, node_user = state_key(self._names.node_id, namespace), self._names.node_user
        try:
            for type_ in TYPES:
                await self._side.set_state(room_id, node_user, type_, said, key)
        except (MatrixError, ConnectionLost) as problem:
            self._report(f"The room {room_id} does not say what it bridges.", problem)

    async def _profile(self) -> Mapping[str, object]:
        try:
            return await self._side.profile(self._names.node_user) or {}
        except (MatrixError, ConnectionLost):
            return {}
