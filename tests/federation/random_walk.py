"""Users of several nodes who perform random operations, while links fail and nodes are killed."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from federation.events import EventId
from federation.matrix.errors import MatrixError
from tests.federation.far_apart import FarApart
from tests.federation.nodes import Node
from tests.federation.shared_room import SharedRoom
from tests.support.bad_link import STORM

Act = Callable[[Node, str], Awaitable[object]]


class RandomWalk:
    def __init__(self, far: FarApart, room: SharedRoom) -> None:
        self._far, self._room, self._chance = far, room.room_id, far.chance
        self._keepers, self._others = room.keepers, room.others
        self._said: list[EventId] = []
        self._bodies = 0
        self._unanswered: list[tuple[str, str]] = []
        """Who was killed in the middle of saying what. It is said again under the same transaction id."""
        self._acts: dict[Act, float] = {
            self._say: 6,
            self._edit: 1,
            self._redact: 1,
            self._name: 2,
            self._set_levels: 2,
            self._set_rule: 0.5,
            self._moderate: 3,
            self._come: 3,
            self._go_away: 1,
            self._invite: 1,
            self._type: 1,
            self._read: 1,
        }

    async def go(self, steps: int) -> None:
        for _ in range(steps):
            under_way = [self._step() for _ in range(self._chance.choice([1, 1, 1, 2, 4]))]
            if self._chance.random() < 0.05:
                under_way.append(self._kill())
            for failed in await asyncio.gather(*under_way, return_exceptions=True):
                if failed is not None:
                    raise failed
            if self._chance.random() < 0.2:
                self._change_a_link()
            if self._chance.random() < 0.1:
                self._far.leap()
        for user, body in self._unanswered:
            await self._tried(self._utter(self._far[user.partition(":")[2]], user, body))

    async def _kill(self) -> None:
        name = self._chance.choice(self._far.names)
        for _ in range(self._chance.randrange(20)):
            await asyncio.sleep(0)
        await self._far.kill(name)
        await self._far.start_again(name)

    def _change_a_link(self) -> None:
        link = self._chance.choice(list(self._far.links.values()))
        change = self._chance.choice(["cut", "cut", "heal", "heal", "delay", "duplicate", "lose", "storm"])
        match change:
            case "cut":
                link.cut()
            case "heal":
                link.heal()
            case "delay":
                link.delay(0.01)
            case "duplicate":
                link.duplicate()
            case "lose":
                link.lose_answers(0.5)
            case "storm":
                link.befall(STORM)

    async def _step(self) -> None:
        node = self._chance.choice(list(self._far.running.values()))
        (act,) = self._chance.choices(list(self._acts), list(self._acts.values()))
        user = self._chance.choice([self._keepers[node.name], *self._own(node)])
        try:
            await self._tried(act(node, user))
        except Exception:
            # An operation on a killed node was cancelled with it.
            if self._far.running.get(node.name) is node:
                raise

    async def _tried(self, act: Awaitable[object]) -> None:
        """Run an operation that may be refused."""
        with contextlib.suppress(MatrixError):
            await act

    def _own(self, node: Node) -> list[str]:
        return [user for user in self._others if user.endswith(f":{node.name}")]

    # -- operations of users --

    async def _say(self, node: Node, user: str) -> None:
        self._bodies += 1
        said = user, str(self._bodies)
        self._unanswered.append(said)
        try:
            await self._utter(node, *said)
        except MatrixError:
            self._unanswered.remove(said)
            raise
        self._unanswered.remove(said)

    async def _utter(self, node: Node, user: str, body: str) -> None:
        content = {"msgtype": "m.text", "body": body}
        event_id = await node.rooms.send(self._room, user, "m.room.message", content, transaction_id=body)
        self._said.append(event_id)

    async def _edit(self, node: Node, user: str) -> None:
        if self._said:
            target = self._chance.choice(self._said)
            new = {"msgtype": "m.text", "body": "better"}
            relation = {"rel_type": "m.replace", "event_id": target}
            content = {**new, "m.new_content": new, "m.relates_to": relation}
            await node.rooms.send(self._room, user, "m.room.message", content)

    async def _redact(self, node: Node, user: str) -> None:
        if self._said:
            await node.rooms.redact(self._room, user, self._chance.choice(self._said))

    async def _name(self, node: Node, user: str) -> None:
        kind = self._chance.choice(["name", "topic"])
        await node.rooms.set_state(self._room, user, f"m.room.{kind}", {kind: str(self._chance.randrange(9))})

    async def _set_levels(self, node: Node, user: str) -> None:
        event = await node.rooms.state_event(self._room, "m.room.power_levels")
        assert event is not None, "the room has levels"
        content = dict(event.content)
        if self._chance.random() < 0.7:
            level = self._chance.choice([0, 50, 60])
            content["users"] = {**content["users"], self._chance.choice(self._others): level}
        else:
            content["events"] = {"m.room.name": self._chance.choice([0, 50, 60, 80])}
        await node.rooms.set_state(self._room, user, "m.room.power_levels", content)

    async def _set_rule(self, node: Node, user: str) -> None:
        rule = self._chance.choice(["public", "public", "invite"])
        await node.rooms.set_state(self._room, user, "m.room.join_rules", {"join_rule": rule})

    async def _moderate(self, node: Node, user: str) -> None:
        rooms = node.rooms
        how = self._chance.choice([rooms.kick, rooms.kick, rooms.ban, rooms.unban, rooms.unban])
        await how(self._room, user, self._chance.choice(self._others))

    async def _come(self, node: Node, user: str) -> None:
        await node.rooms.join(self._room, self._chance.choice(self._own(node)))

    async def _go_away(self, node: Node, user: str) -> None:
        await node.rooms.leave(self._room, self._chance.choice(self._own(node)))

    async def _invite(self, node: Node, user: str) -> None:
        await node.rooms.invite(self._room, user, self._chance.choice(self._others))

    async def _type(self, node: Node, user: str) -> None:
        await node.rooms.set_typing(self._room, user, typing=self._chance.random() < 0.5)

    async def _read(self, node: Node, user: str) -> None:
        if self._said:
            await node.rooms.mark_read(self._room, user, self._chance.choice(self._said))
