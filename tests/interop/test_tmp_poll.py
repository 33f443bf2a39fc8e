import logging
from contextlib import AsyncExitStack
import aiohttp, asyncio
from tests.interop.test_office_tables import *
logging.basicConfig(level=logging.DEBUG)

async def test_poll(hosted):
    import socketio
    io = socketio.AsyncClient(reconnection=False, logger=True, engineio_logger=True)
    try:
        await io.connect(hosted.node.url("", "http")+"?a2c_version=0.4.0", auth={"token": hosted.token}, namespaces=["/smcp"], transports=["polling"], wait_timeout=8)
    except Exception as e:
        print("EXC", e)
    await io.disconnect()
    print(hosted.node.log[-10:])
    assert 0
