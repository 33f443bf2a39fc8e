"""`palaver audit`, from the words to the node and back."""

import asyncio
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from bridge.clock import now_ms
from bridge.connectors.cis.acts import Act, Verdict
from bridge.connectors.cis.metrics import CisMetrics
from bridge.connectors.cis.service.observer import CisObserver
from bridge.observability.live_feed import LiveFeed
from storage.federation.audit import AuditRow, insert_entries
from tests.bridge.cli.conftest import Operated, Palaver

TIMEOUT = 60.0


async def test_the_audit_is_shown(operated: Operated) -> None:
    """Who did what, and how it ended; what others have written reaches no terminal."""
    assert "Nothing is written down." in (await operated.palaver("audit")).out
    now = datetime.now(UTC)
    rows = [
        AuditRow(now, "there.test", "in", "send_join", "@x\x1b[31m:there.test", "!r", "$e", "done", None),
        AuditRow(now, None, "in", "send", None, None, None, "rate_limited", "429 [red]"),
    ]
    async with operated.node.database.transaction() as connection:
        await insert_entries(connection, rows)
    said = await operated.palaver("audit")
    for words in (
        "there.test",
        "asked us",
        "send_join",
        "@x\\x1b[31m:there.test",
        "somebody",
        "rate limited: 429 [red]",
    ):
        assert words in said.out
    assert "\x1b" not in said.out
    event = rows[0]._replace(subject="$" + "e" * 43, room_id="!" + "r" * 43)
    async with operated.node.database.transaction() as connection:
        await insert_entries(connection, [event, rows[0]._replace(subject="#kitchen:there.test")])
    said = await operated.palaver("audit")
    assert ("$" + "e" * 11 + " " in said.out, "#kitchen:there.test" in said.out) == (True, True)
    assert "There is more" in (await operated.palaver("audit", "--limit", "1")).out
    assert len((await operated.json("audit", "--since", "1h", "--peer", "there.test"))["acts"]) == 3


@pytest.mark.parametrize("since", ["yesterday", "5", "0d", "-1h", "٣d", "1w"])
def test_what_is_no_span_of_time_is_told(palaver: Palaver, since: str) -> None:
    """With how one is written."""
    said = palaver("audit", f"--since={since}")
    assert (said.code, "90s, 15m, 2h, 7d" in said.err) == (1, True)


async def test_what_nodes_tell_each_other_of_agents_is_shown(operated: Operated) -> None:
    """Whom and what; what is said to all is said to everybody."""
    observer = CisObserver(
        CisMetrics(CollectorRegistry()),
        operated.node.homeserver.audit,
        LiveFeed(now_ms=now_ms),
        lambda sentence, error: None,
        now_ms=now_ms,
    )
    request = "io.cis.agent.task.request"
    observer.acted(Act("there.test", request, Verdict.TAKEN, "@boss:there.test", "!r", "req-1"))
    observer.acted(Act("there.test", "\x1b[31m", Verdict.KEPT))
    observer.acted(Act(None, "io.cis.agent.registered", Verdict.SENT, subject="cook@here.test"))
    async with asyncio.timeout(TIMEOUT):
        while len((await operated.json("audit"))["acts"]) < 3:
            await asyncio.sleep(0.1)
    said = await operated.palaver("audit")
    lines = {name: next(line for line in said.out.splitlines() if name in line) for name in (request, "regi")}
    for words in ("there.test", "told us", "done", "@boss:there.test", "req-1"):
        assert words in lines[request]
    for words in ("everybody", "was told", "cook@here.test"):
        assert words in lines["regi"]
    assert "kept, and not acted on" in said.out
    assert "\x1b" not in said.out
