from federation.wire.tls import Tls, TlsFiles
from tests.federation.wire.running import KEYS, client_context, running
from tests.support.tls import Authority


async def test_one_port_answers_tls_and_plain_http(tls_files: TlsFiles, authority: Authority) -> None:
    """The first byte of a connection decides; the answer is the same."""
    async with running(tls=Tls(tls_files)) as node:
        for context in (None, client_context(authority)):
            async with await node.connect(context) as client:
                answer = await client.ask("/_matrix/key/v2/server")
                assert (answer.status, answer.body) == (200, KEYS)
                assert answer.headers["server"] == "palaver"
        await node.seen.until(lambda seen: len(seen.closed) == 2)
        assert node.seen.opened == ["plain", "tls"]
        assert node.seen.answered == [("/_matrix/key/v2/server", "GET", 200)] * 2
