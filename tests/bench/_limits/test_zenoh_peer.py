import json
from pathlib import Path

import zenoh

from bench._harness.ports import free_port
from bench._limits.zenoh_peer import BACK, THERE, ZenohPeer, configuration


def test_a_peer_knows_one_endpoint_and_looks_for_nobody() -> None:
    """No multicast, no gossip, no address but the one given."""
    configured = configuration(connect="tcp/127.0.0.1:7")
    assert json.loads(configured.get_json("scouting/multicast/enabled")) is False
    assert json.loads(configured.get_json("scouting/gossip/enabled")) is False
    assert json.loads(configured.get_json("connect/endpoints")) == ["tcp/127.0.0.1:7"]
    assert json.loads(configured.get_json("listen/endpoints")) == []


def test_nothing_is_opened_beside_loopback() -> None:
    """As the kernel sees it: no UDP socket at all, and no TCP socket that others could reach."""
    before = sockets()
    with zenoh.open(configuration(listen=f"tcp/127.0.0.1:{free_port()}")):
        opened = sockets() - before
    assert opened
    assert {address.rpartition(":")[0] for address in opened} == {"tcp 0100007F"}


def sockets() -> set[str]:
    """The protocol and the local address of every socket of this process."""
    ours = {
        link.readlink().name.removeprefix("socket:[").removesuffix("]")
        for link in Path("/proc/self/fd").iterdir()
        if link.is_symlink() and str(link.readlink()).startswith("socket:")
    }
    found = set()
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        for line in (Path("/proc/self/net") / protocol).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in ours:
                found.add(f"{protocol} {fields[1]}")
    return found


async def test_a_message_comes_back() -> None:
    """Through the other peer, byte for byte."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    heard: list[bytes] = []
    with zenoh.open(configuration(listen=endpoint)) as far, zenoh.open(configuration(connect=endpoint)) as near:

        def echo(sample: zenoh.Sample) -> None:
            heard.append(sample.payload.to_bytes())
            far.put(BACK, sample.payload)

        with far.declare_subscriber(THERE, echo):
            peer = ZenohPeer(near)
            await peer.until_connected()
            await peer.round_trip(b"m" * 64)
    assert heard[-1] == b"m" * 64
