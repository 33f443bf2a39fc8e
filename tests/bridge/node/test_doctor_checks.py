"""The checks of `palaver doctor` that the process tests do not cover."""

from pathlib import Path
from typing import Any

import pytest

from bridge.config.appservice import wanted
from bridge.config.config import Config
from bridge.config.files import LoadedConfig
from bridge.node.doctor import CHECKS, CheckContext, Finding, Verdict, run_checks
from bridge.node.registration import write
from federation.keys.local_keys import LocalKeyFiles
from storage.connect import DatabaseAddress
from storage.database import Database, connect_once
from storage.errors import LocalError
from storage.migrate import migrate
from storage.node import claim
from tests.support.ports import lasting_port


def _patient(tmp_path: Path, status: dict[str, Any] | None = None, **values: Any) -> CheckContext:
    config = Config.model_validate({"data_dir": tmp_path, **values})
    return CheckContext(LoadedConfig(config, None), status)


async def _find(subject: str, context: CheckContext) -> Finding:
    found = await CHECKS[subject](context)
    assert found.subject == subject
    return found


async def test_report_has_every_check_once(tmp_path: Path) -> None:
    """In order."""
    config = Config.model_validate({"data_dir": tmp_path, "listener": {"port": 0}, "metrics": {"port": 0}})
    findings = await run_checks(LoadedConfig(config, None))
    assert [found.subject for found in findings] == list(CHECKS)


async def test_attached_node_is_checked(tmp_path: Path) -> None:
    """Like `palaver registration --check`; a homeserver needs no check."""
    assert (await _find("matrix backend", _patient(tmp_path))).verdict is Verdict.OK
    url = f"http://127.0.0.1:{lasting_port()}"
    section = {"homeserver": url, "domain": "their.server", "registration": tmp_path / "registration.yaml"}
    context = _patient(tmp_path, matrix_side="appservice", appservice=section)
    with pytest.raises(LocalError, match="There is no registration"):
        await _find("matrix backend", context)
    write(tmp_path / "registration.yaml", wanted(context.config.appservice, "localhost:7676"))
    found = await _find("matrix backend", context)
    assert (found.verdict, f"does not respond at {url}" in found.text) == (Verdict.FAULT, True)


async def test_data_directory_is_a_file(tmp_path: Path) -> None:
    """A fault."""
    (tmp_path / "data").write_text("")
    assert (await _find("data directory", _patient(tmp_path / "data"))).verdict is Verdict.FAULT
    assert (await _find("data directory", _patient(tmp_path / "new"))).verdict is Verdict.OK


async def test_development_certificate_on_a_public_name(tmp_path: Path) -> None:
    """A note: other servers refuse it."""
    context = _patient(tmp_path, server_name="kitchen.local")
    assert (await _find("certificate", context)).verdict is Verdict.OK
    from bridge.config.settings import tls_files

    tls_files(context.config)
    found = await _find("certificate", context)
    assert (found.verdict, "do not trust" in found.text) == (Verdict.NOTE, True)


async def test_certificate_for_another_name(tmp_path: Path) -> None:
    """A note: delegation may make it valid."""
    from federation.http.server.development_certificate import ensure

    made = ensure(tmp_path / "tls", "other.example.org")
    listener = {"certificate": made.certificate, "private_key": made.private_key}
    found = await _find("certificate", _patient(tmp_path, server_name="kitchen.local", listener=listener))
    assert (found.verdict, "not for kitchen.local" in found.text) == (Verdict.NOTE, True)
    found = await _find("certificate", _patient(tmp_path, server_name="other.example.org", listener=listener))
    assert found.verdict is Verdict.OK


async def test_signing_keys(tmp_path: Path) -> None:
    """The current one by id, the number of old ones."""
    files = LocalKeyFiles(tmp_path)
    keys = files.rotate(files.load_or_create(), 1)
    found = await _find("signing key", _patient(tmp_path))
    assert keys.current.key_id in found.text
    assert "1 older" in found.text


async def test_external_database(tmp_path: Path, empty_address: DatabaseAddress, database: Database) -> None:
    """Pending migrations are a note, another node's database a fault."""
    found = await _find("database", _patient(tmp_path, database={"url": empty_address.url}))
    assert (found.verdict, "pending" in found.text) == (Verdict.NOTE, True)
    async with database.transaction() as connection:
        await claim(connection, "kitchen.local")
    context = _patient(tmp_path, database={"url": database.address.url})
    with pytest.raises(LocalError, match=r"kitchen\.local"):
        await _find("database", context)


async def test_newer_schema_is_a_fault(tmp_path: Path, database_address: DatabaseAddress) -> None:
    """With both versions."""
    connection = await connect_once(database_address)
    await connection.execute("INSERT INTO schema_migrations VALUES (9999, 'later', 'x')")
    await connection.close()
    config = Config.model_validate({"data_dir": tmp_path, "database": {"url": database_address.url}})
    findings = {found.subject: found for found in await run_checks(LoadedConfig(config, None))}
    assert "9999" in findings["database"].text
    assert findings["database"].verdict is Verdict.FAULT


async def test_agents_whose_commands_do_not_work(tmp_path: Path) -> None:
    """A fault with the problem of each, and since when."""
    assert (await _find("agents", _patient(tmp_path))).verdict is Verdict.OK
    assert (await _find("agents", _patient(tmp_path, {"agents_in_error": []}))).verdict is Verdict.OK
    one = {"agent": "work@here", "problem": "The command cluade was not found or is not executable.", "since": 0}
    found = await _find("agents", _patient(tmp_path, {"agents_in_error": [one] * 7}))
    assert found.verdict is Verdict.FAULT
    for part in ("7 agents do not work", "work@here, since 1970-01-01", "cluade was not found", "And 2 more."):
        assert part in found.text


async def test_unhandled_events(tmp_path: Path) -> None:
    """A note with their number and the latest one."""
    assert (await _find("inbox", _patient(tmp_path))).verdict is Verdict.OK
    assert (await _find("inbox", _patient(tmp_path, {"set_aside": []}))).verdict is Verdict.OK
    one = {"reader": "people", "room_id": "!r:here", "event_id": "$e", "problem": "KeyError: 'x'", "total": 3}
    found = await _find("inbox", _patient(tmp_path, {"set_aside": [one]}))
    assert found.verdict is Verdict.NOTE
    for part in ("3 events", "$e", "!r:here", "people", "KeyError: 'x'"):
        assert part in found.text
    assert found.advice


async def test_node_that_is_not_ready(tmp_path: Path) -> None:
    """A fault with its failed checks."""
    status = {"ready": False, "checks": {"database": "It does not respond.", "listeners": "fine"}, "server_name": "x"}
    found = await _find("node", _patient(tmp_path, status))
    assert (found.verdict, "It does not respond." in found.text) == (Verdict.FAULT, True)
    assert (await _find("database", _patient(tmp_path, status))).verdict is Verdict.FAULT


async def test_another_program_on_the_port(tmp_path: Path, unused_tcp_port: int) -> None:
    """A fault."""
    found = await _find("port", _patient(tmp_path, {"addresses": [f"127.0.0.1:{unused_tcp_port}"]}))
    assert (found.verdict, "does not respond" in found.text) == (Verdict.FAULT, True)


async def test_disabled_metrics(tmp_path: Path) -> None:
    """No port is checked."""
    found = await _find("metrics", _patient(tmp_path, metrics={"enabled": False}))
    assert (found.verdict, found.text) == (Verdict.OK, "Disabled.")


@pytest.mark.parametrize("subject", list(CHECKS))
async def test_checks_write_nothing(tmp_path: Path, subject: str) -> None:
    """All of them are read-only."""
    listener, metrics = {"port": 0}, {"port": 0}
    await _find(subject, _patient(tmp_path / "data", listener=listener, metrics=metrics))
    assert list(tmp_path.iterdir()) == []


async def test_migrated_schema_is_up_to_date(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """Nothing is pending, and no node has claimed it."""
    pool = await Database.connect(empty_address, minimum=1, maximum=1)
    await migrate(pool)
    await pool.close()
    found = await _find("database", _patient(tmp_path, database={"url": empty_address.url}))
    assert found.verdict is Verdict.OK
