"""Which broker is spoken with how."""

from bridge.connectors.offices.cluster.links import BrokerAddress, RedisLink, ZenohLink, link_to


async def test_each_has_its_link() -> None:
    """In a place of the node's own: two nodes with one broker do not hear each other."""
    redis = link_to(BrokerAddress("redis", "redis://127.0.0.1:6379/0"), "here.test")
    zenoh = link_to(BrokerAddress("zenoh", "tcp/127.0.0.1:7447"), "there.test")
    assert isinstance(redis, RedisLink)
    assert redis._channel == "palaver/offices/here.test"
    assert isinstance(zenoh, ZenohLink)
    assert zenoh._key == "palaver/offices/there.test"
    await redis.close()
    await zenoh.close()
