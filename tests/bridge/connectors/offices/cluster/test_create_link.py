"""The link for each kind of broker."""

from bridge.connectors.offices.cluster.broker_address import BrokerAddress
from bridge.connectors.offices.cluster.links import RedisLink, ZenohLink, create_link


async def test_each_kind_has_its_link() -> None:
    """Each node has its own channel, so two nodes can use one broker."""
    redis = create_link(BrokerAddress("redis", "redis://127.0.0.1:6379/0"), "here.test")
    zenoh = create_link(BrokerAddress("zenoh", "tcp/127.0.0.1:7447"), "there.test")
    assert isinstance(redis, RedisLink)
    assert redis._channel == "palaver/offices/here.test"
    assert isinstance(zenoh, ZenohLink)
    assert zenoh._key == "palaver/offices/there.test"
    await redis.close()
    await zenoh.close()
