"""The lean connection, against a server of python-socketio."""

import asyncio
from typing import Any

import pytest

from bench._offices.connection import NAMESPACE, VERSION, Connection, Ended, connect
from bench._offices.office import CALL, JOIN
from tests.bench._offices.relaying import TOKEN, relaying

LENGTHS = [0, 20, 60, 70, 125, 126, 500, 20_000]


def join(name: str) -> dict[str, str]:
    return {"role": "computer", "name": name, "office_id": "a"}


async def test_what_is_asked_is_heard_and_answered() -> None:
    """Of every length that a frame writes in its own way, several at once, each by its number."""
    async with relaying() as (server, port):
        heard: list[tuple[str, Any]] = []

        def answer(event: str, said: Any) -> Any:
            heard.append((event, said))
            return {"echo": said["text"] if event == CALL else None}

        computer = await connect(port, TOKEN, answer)
        assert await computer.ask(JOIN, join("hands")) == [True, None]
        agent = await connect(port, TOKEN, answer)
        await agent.ask(JOIN, join("boss"))
        texts = ["ä" * length for length in LENGTHS]
        said = [{"computer": "hands", "text": text} for text in texts]
        answers = await asyncio.gather(*(agent.ask(CALL, one) for one in said))
        assert answers == [[{"echo": text}] for text in texts]
        # It was told of the other one, and nobody waits for an answer to that.
        assert heard == [("notify:enter_office", {"office_id": "a"}), *((CALL, one) for one in said)]
        assert all(f"a2c_version={VERSION}" in query for query in server.queries)
        agent.close()
        computer.close()


async def test_it_stays_while_the_server_looks_whether_it_is_there() -> None:
    """Longer than between two of its pings."""
    async with relaying() as (_, port):
        connection = await connect(port, TOKEN, lambda event, said: None)
        await asyncio.sleep(2.5)
        assert await connection.ask(JOIN, join("hands")) == [True, None]
        connection.close()


async def test_who_is_not_let_in_is_told() -> None:
    """By the server's own words."""
    async with relaying() as (_, port):
        with pytest.raises(Ended, match=f"44{NAMESPACE}"):
            await connect(port, "a wrong one", lambda event, said: None)


async def test_who_waits_is_told_of_the_end() -> None:
    """Of the connection, before there is an answer."""
    async with relaying() as (_, port):
        connection = await connect(port, TOKEN, lambda event, said: None)
        # Nobody is called so: the server answers nothing at all.
        waiting = asyncio.create_task(connection.ask(CALL, {"computer": "nobody"}))
        await asyncio.sleep(0.1)
        connection.close()
        with pytest.raises(Ended):
            await waiting


class Written(asyncio.Transport):
    def write(self, data: Any) -> None:
        pass

    def abort(self) -> None:
        pass


async def test_frames_may_come_in_any_pieces() -> None:
    """Byte by byte, and many at once."""
    heard: list[Any] = []
    frames = b"".join(
        frame(b'42/smcp,["said",{"n":%d,"text":"%b"}]' % (number, b"x" * length))
        for number, length in enumerate(LENGTHS)
    )
    for size in (1, 3, len(frames)):
        connection = Connection(lambda event, said: heard.append(said["n"]))
        connection.connection_made(Written())
        connection.data_received(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
        for begin in range(0, len(frames), size):
            connection.data_received(frames[begin : begin + size])
    assert heard == list(range(len(LENGTHS))) * 3


def frame(payload: bytes) -> bytes:
    length = len(payload)
    if length < 126:
        return bytes((0x81, length)) + payload
    return bytes((0x81, 126)) + length.to_bytes(2, "big") + payload
