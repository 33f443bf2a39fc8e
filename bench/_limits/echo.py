"""The remote end of a round trip, in its own process: it returns whatever it receives.

`python -m bench._limits.echo zenoh ENDPOINT|postgres ADDRESS`: reports that it is ready, and echoes until the
benchmark ends.
"""

import asyncio
import sys

import uvloop
import zenoh

from bench._harness.database import connected
from bench._harness.lifeline import tell_parent, until_abandoned
from bench._limits import notify_peer, zenoh_peer


async def echo_zenoh(endpoint: str) -> None:
    """Put every sample back from the thread in which Zenoh delivers it."""
    with zenoh.open(zenoh_peer.configuration(listen=endpoint)) as session:
        back = session.declare_publisher(zenoh_peer.BACK)
        with session.declare_subscriber(zenoh_peer.THERE, lambda sample: back.put(sample.payload)):
            tell_parent(ready=True)
            await until_abandoned()


async def echo_postgres(address: str) -> None:
    """Notify back as soon as a notification is received."""
    async with connected(address) as speaking, connected(address) as listening:
        # The next notification may arrive before Postgres confirms that the previous echo was sent.
        free = asyncio.Lock()

        async def answer(_connection: object, _process: int, _channel: str, payload: object) -> None:
            async with free:
                await notify_peer.notify(speaking, notify_peer.BACK, payload)

        await listening.add_listener(notify_peer.THERE, answer)
        tell_parent(ready=True)
        await until_abandoned()


_ECHOES = {"zenoh": echo_zenoh, "postgres": echo_postgres}

if __name__ == "__main__":
    kind, where = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_ECHOES[kind](where))
