"""`palaver audit` with a running node."""

import asyncio
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from bridge.clock import now_ms
from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.metrics import CisMetrics
from bridge.connectors.cis.service.observer import CisObserver
from bridge.observability.live_feed import LiveFeed
from storage.federation.audit import AuditRow, insert_entries
from tests.bridge.cli.conftest import OperatedNode, Palaver

TIMEOUT = 60.0


async def test_entries_are_shown_with_their_outcome(operated: OperatedNode) -> None:
    """Control characters of remote text are not printed."""
    assert "There are no entries." in (await operated.palaver("audit")).out
    now = datetime.now(UTC)
    rows = [
        AuditRow(now, "there.test", "in", "send_join", "@x\x1b[31m:there.test", "!r", "$e", "done", None),
        AuditRow(now, None, "in", "send", None, None, None, "rate_limited", "429 [red]"),
    ]
    async with operated.node.database.transaction() as connection:
        await insert_entries(connection, rows)
    result = await operated.palaver("audit")
    for words in (
        "there.test",
        "requested",
        "send_join",
        "@x\\x1b[31m:there.test",
        "unknown",
        "rate limited: 429 [red]",
    ):
        assert words in result.out
    assert "\x1b" not in result.out
    event = rows[0]._replace(subject="$" + "e" * 43, room_id="!" + "r" * 43)
    async with operated.node.database.transaction() as connection:
        await insert_entries(connection, [event, rows[0]._replace(subject="#kitchen:there.test")])
    result = await operated.palaver("audit")
    assert ("$" + "e" * 11 + " " in result.out, "#kitchen:there.test" in result.out) == (True, True)
    assert "There are more entries" in (await operated.palaver("audit", "--limit", "1")).out
    assert len((await operated.json("audit", "--since", "1h", "--peer", "there.test"))["acts"]) == 3


@pytest.mark.parametrize("since", ["yesterday", "5", "0d", "-1h", "٣d", "1w"])
def test_an_invalid_duration_is_refused(palaver: Palaver, since: str) -> None:
    """The error shows the notation."""
    result = palaver("audit", f"--since={since}")
    assert (result.code, "90s, 15m, 2h, 7d" in result.err) == (1, True)


async def test_messages_about_agents_and_tasks_are_shown(operated: OperatedNode) -> None:
    """A message to all nodes has `all servers` as its server."""
    observer = CisObserver(
        CisMetrics(CollectorRegistry()),
        operated.node.homeserver.audit,
        LiveFeed(now_ms=now_ms),
        lambda sentence, error: None,
        now_ms=now_ms,
    )
    request = "io.cis.agent.task.request"
    observer.record(EventRecord("there.test", request, Verdict.TAKEN, "@boss:there.test", "!r", "req-1"))
    observer.record(EventRecord("there.test", "\x1b[31m", Verdict.KEPT))
    observer.record(EventRecord(None, "io.cis.agent.registered", Verdict.SENT, subject="cook@here.test"))
    async with asyncio.timeout(TIMEOUT):
        while len((await operated.json("audit"))["acts"]) < 3:
            await asyncio.sleep(0.1)
    result = await operated.palaver("audit")
    lines = {name: next(line for line in result.out.splitlines() if name in line) for name in (request, "regi")}
    for words in ("there.test", "notified us", "done", "@boss:there.test", "req-1"):
        assert words in lines[request]
    for words in ("all servers", "was notified", "cook@here.test"):
        assert words in lines["regi"]
    assert "unknown type: stored, not acted on" in result.out
    assert "\x1b" not in result.out
