"""Loads, by way of a server that only brings."""

from bench._offices.load_generator import call, settled
from bench._offices.sides import Listener, Place, Settings
from tests.bench._offices.relaying import TOKEN, relaying


async def test_calls_are_spread_over_the_offices() -> None:
    """As many at once as are asked for, whether there are more offices or fewer."""
    async with relaying() as (server, port):
        listener = Listener(port, TOKEN)
        offices = [Place(listener, listener, f"office-{number}") for number in range(3)]
        [there] = (await settled(Settings({"here": tuple(offices)}))).values()
        for at_once, busy in ((1, 1), (2, 2), (7, 3)):
            server.asked.clear()
            came = await call(there, 0.05, at_once)
            assert len(came["durations"]) == len(server.asked) >= at_once
            assert len({said["computer"] for said in server.asked}) == busy
            assert came["seconds"] >= 0.05
        for office in there:
            office.close()
