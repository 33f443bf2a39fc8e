"""The commands that people send to the node."""

from bridge.people.permissions import Rights
from bridge.tasks.task import State
from tests.bridge.people.service.running_node import ALICE, BOB, CAROL, EVE, HERE, NODE, RIGHTS, Servers


async def test_every_message_in_a_chat_with_the_node_is_a_command(servers: Servers) -> None:
    """Each is answered, as plain text and HTML."""
    running = await servers.start_node(agents=("worker-1", "worker-2"))
    await running.register_agents("cook@kitchen.test")
    chat = await servers.there.chat(ALICE, NODE)
    await servers.there.until_body('Send "help"', room_id=chat)
    for line, parts in (
        ("help", ("Commands:", "agent ADDRESS", "mention it in a room")),
        ("hlep", ('There is no command "hlep". Did you mean "help"?',)),
        ("agent", ("Usage: agent ADDRESS",)),
        ("help nonsense", ("Usage: help [COMMAND]",)),
        ("help peers", ("and a second permission",)),
        ("agents", (f"worker-1@{HERE} · idle · claude · coding", "cook@kitchen.test")),
        ("agents kitchen", ("cook@kitchen.test",)),
        ("agents kitchen x", ("Usage: agents",)),
        ("agents nobody", ('No agent matches "nobody"',)),
        ("agent worker-2", (f"worker-2@{HERE} is an agent of this node", "Capabilities: coding")),
        ("agent worker-9", ("No agent worker-9 is known. (AGENT_NOT_FOUND)",)),
        ("agent a@b@c", ("INVALID_PAYLOAD",)),
        ("rooms", (f"#agents-default:{HERE} – the agents of the namespace default",)),
        ("rooms x", ("Usage: rooms",)),
        ("task", ("You have no tasks.",)),
        ("task t-9", ('No task "t-9" was found.',)),
    ):
        asked = await servers.there.say(chat, ALICE, line)
        answer = await servers.there.until(
            lambda event, asked=asked: event.content.get("m.relates_to") == {"m.in_reply_to": {"event_id": asked}}
        )
        assert answer.sender == NODE
        assert answer.content["msgtype"] == "m.notice"
        assert all(part in answer.content["body"] for part in parts), (line, answer.content["body"])
    assert running.notebook.problems == []


async def test_tasks_are_listed_and_cancelled(servers: Servers) -> None:
    """People can cancel their own tasks, administrators all. An ended task cannot be cancelled."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE, BOB, CAROL)
    await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    task = await running.given()
    name = task.request.task_id
    await servers.there.say(running.room_id, ALICE, "!agents task")
    await servers.there.until_body(f"⏳ {name}: {ALICE} asks worker-1@{HERE} · accepted")
    await servers.there.say(running.room_id, BOB, f"!agents cancel {name}")
    await servers.there.until_body(f'for {BOB} the rule "{BOB}" = "work"')
    await servers.there.say(running.room_id, CAROL, f"!agents cancel {name} it is too late")
    await servers.there.until_body(f"Cancelled by {CAROL}: it is too late")
    await servers.there.until_body(f"❌ {name}: {ALICE} asks worker-1@{HERE} · cancelled")
    await servers.there.say(running.room_id, CAROL, f"!agents cancel {name}")
    await servers.there.until_body("There is nothing to cancel.")
    ended = await running.task_service.task(task.key)
    assert ended is not None
    assert ended.state is State.CANCELLED


async def test_an_ambiguous_task_id_cancels_nothing(servers: Servers) -> None:
    """Requesters choose the ids of their tasks."""
    running = await servers.start_node()
    await servers.join(running.room_id, CAROL)
    for name in ("a", "b"):
        await running.request_task(name, task_id="peel")
    await servers.there.say(running.room_id, CAROL, "!agents cancel peel")
    await servers.there.until_body("Several tasks have this id", "- ⏳ peel: coordinator@kitchen")
    assert running.courier.cancelled.empty()


async def test_without_permission_a_command_is_refused(servers: Servers) -> None:
    """In a chat with other people. The node rejects an invite to a direct chat."""
    running = await servers.start_node(rights=Rights({EVE: RIGHTS.levels[EVE], ALICE: RIGHTS.levels[ALICE]}))
    room_id = await servers.there.chat(ALICE, NODE)
    await servers.there.node.rooms.invite(room_id, ALICE, EVE)
    await servers.there.node.rooms.join(room_id, EVE)
    await servers.there.say(room_id, EVE, "!agents agents")
    await servers.there.until_body("to see agents", f'"{EVE}" = "none"')
    assert running.notebook.problems == []


async def test_a_sensitive_command_needs_both_permissions(servers: Servers) -> None:
    """The level and an entry in `sensitive`."""
    running = await servers.start_node(rights=Rights(RIGHTS.levels, {ALICE}))
    await servers.join(running.room_id, ALICE, CAROL)
    await servers.there.say(running.room_id, CAROL, "!agents peers")
    await servers.there.until_body("needs a second permission", CAROL)
    await servers.there.say(running.room_id, ALICE, "!agents peers")
    await servers.there.until_body('need the permission "administer"', ALICE)
    await servers.stop_node(running)
    running = await servers.start_node(rights=Rights(RIGHTS.levels, {CAROL}))
    await running.register_agents("cook@kitchen.test")
    await servers.there.say(running.room_id, CAROL, "!agents peers")
    await servers.there.until_body("kitchen.test · 1 agent, discovered by name, not trusted")


async def test_the_command_rooms_invites_the_person(servers: Servers) -> None:
    """If the agents' rooms are not public."""
    running = await servers.start_node(join_rule="invite")
    chat = await servers.there.chat(ALICE, NODE)
    await servers.there.say(chat, ALICE, "rooms")
    await servers.there.until_body("You have been invited to them.")
    await servers.there.until(
        lambda event: (
            (event.room_id, event.state_key) == (running.room_id, ALICE) and event.content.get("membership") == "invite"
        )
    )
    await servers.join(running.room_id, ALICE)
    await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    assert (await running.given()).request.prompt == "peel"
