"""Answers commands."""

from bridge.people.permissions import Rights
from bridge.tasks.task import State
from tests.bridge.people.service.scene import ALICE, BOB, CAROL, EVE, HERE, NODE, RIGHTS, Stage


async def test_in_a_chat_with_the_node(play: Stage) -> None:
    """Every message is a command; each is answered, whatever it is, as text and with its form."""
    scene = await play.scene(agents=("worker-1", "worker-2"))
    await scene.come("cook@kitchen.test")
    chat = await play.there.chat(ALICE, NODE)
    await play.there.until_body('Say "help"', room_id=chat)
    for line, parts in (
        ("help", ("What you can ask:", "agent ADDRESS", "mention it in a room")),
        ("hlep", ('There is no command "hlep". Did you mean "help"?',)),
        ("agent", ("Say it like this: agent ADDRESS",)),
        ("help nonsense", ("Say it like this: help [COMMAND]",)),
        ("help peers", ("and a second one, being sensitive",)),
        ("agents", (f"worker-1@{HERE} · idle · claude · coding", "cook@kitchen.test")),
        ("agents kitchen", ("cook@kitchen.test",)),
        ("agents kitchen x", ("Say it like this: agents",)),
        ("agents nobody", ('No agent has "nobody"',)),
        ("agent worker-2", (f"worker-2@{HERE} is an agent of this node", "It can do: coding")),
        ("agent worker-9", ("No agent worker-9 is known. (AGENT_NOT_FOUND)",)),
        ("agent a@b@c", ("INVALID_PAYLOAD",)),
        ("rooms", (f"#agents-default:{HERE} – the agents of the namespace default",)),
        ("rooms x", ("Say it like this: rooms",)),
        ("task", ("You have no tasks.",)),
        ("task t-9", ('No task "t-9" is known.',)),
    ):
        asked = await play.there.say(chat, ALICE, line)
        answer = await play.there.until(
            lambda event, asked=asked: (
                event.content.get("m.relates_to") == {"m.in_reply_to": {"event_id": asked}}
            )
        )
        assert answer.sender == NODE
        assert answer.content["msgtype"] == "m.notice"
        assert all(part in answer.content["body"] for part in parts), (line, answer.content["body"])
    assert scene.notebook.problems == []


async def test_tasks_and_taking_them_back(play: Stage) -> None:
    """One's own are listed; another's takes an administrator; one that is over cannot be taken back."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE, BOB, CAROL)
    await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    task = await scene.given()
    name = task.request.task_id
    await play.there.say(scene.room_id, ALICE, "!agents task")
    await play.there.until_body(f"⏳ {name}: {ALICE} asks worker-1@{HERE} · accepted")
    await play.there.say(scene.room_id, BOB, f"!agents cancel {name}")
    await play.there.until_body(f'for {BOB} the rule "{BOB}" = "work"')
    await play.there.say(scene.room_id, CAROL, f"!agents cancel {name} it is too late")
    await play.there.until_body(f"Cancelled by {CAROL}: it is too late")
    await play.there.until_body(f"❌ {name}: {ALICE} asks worker-1@{HERE} · cancelled")
    await play.there.say(scene.room_id, CAROL, f"!agents cancel {name}")
    await play.there.until_body("There is nothing to take back.")
    ended = await scene.tasks.task(task.key)
    assert ended is not None
    assert ended.state is State.CANCELLED


async def test_tasks_of_one_name_are_not_taken_back_by_it(play: Stage) -> None:
    """Whoever asks chooses the name of a task, and may choose one that there is."""
    scene = await play.scene()
    await play.join(scene.room_id, CAROL)
    for name in ("a", "b"):
        await scene.ask(name, task_id="peel")
    await play.there.say(scene.room_id, CAROL, "!agents cancel peel")
    await play.there.until_body("Several tasks are called so", "- ⏳ peel: coordinator@kitchen")
    assert scene.courier.cancelled.empty()


async def test_who_may_not_look_is_refused(play: Stage) -> None:
    """In a chat with the node to which others belong; into one of two it does not come at all."""
    scene = await play.scene(rights=Rights({EVE: RIGHTS.levels[EVE], ALICE: RIGHTS.levels[ALICE]}))
    room_id = await play.there.chat(ALICE, NODE)
    await play.there.node.rooms.invite(room_id, ALICE, EVE)
    await play.there.node.rooms.join(room_id, EVE)
    await play.there.say(room_id, EVE, "!agents agents")
    await play.there.until_body("Looking at agents takes", f'"{EVE}" = "none"')
    assert scene.notebook.problems == []


async def test_what_is_sensitive_takes_a_second_permission(play: Stage) -> None:
    """An administrator who is not named has not got it; who is named but is no administrator neither."""
    scene = await play.scene(rights=Rights(RIGHTS.levels, {ALICE}))
    await play.join(scene.room_id, ALICE, CAROL)
    await play.there.say(scene.room_id, CAROL, "!agents peers")
    await play.there.until_body("takes a second permission", CAROL)
    await play.there.say(scene.room_id, ALICE, "!agents peers")
    await play.there.until_body('takes the permission "administer"', ALICE)
    await play.end(scene)
    scene = await play.scene(rights=Rights(RIGHTS.levels, {CAROL}))
    await scene.come("cook@kitchen.test")
    await play.there.say(scene.room_id, CAROL, "!agents peers")
    await play.there.until_body("kitchen.test · 1 agent, reached by its name, not trusted")


async def test_rooms_to_which_one_is_invited(play: Stage) -> None:
    """Where they are not open, whoever may look is invited by asking for them."""
    scene = await play.scene(join_rule="invite")
    chat = await play.there.chat(ALICE, NODE)
    await play.there.say(chat, ALICE, "rooms")
    await play.there.until_body("You have been invited into them.")
    await play.there.until(
        lambda event: (
            (event.room_id, event.state_key) == (scene.room_id, ALICE)
            and event.content.get("membership") == "invite"
        )
    )
    await play.join(scene.room_id, ALICE)
    await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    assert (await scene.given()).request.prompt == "peel"
