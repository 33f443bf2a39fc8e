"""Each check of `palaver doctor`, where the process tests do not reach."""

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


async def test_every_examination_is_in_the_report_once(tmp_path: Path) -> None:
    """In the order of the list."""
    config = Config.model_validate({"data_dir": tmp_path, "listener": {"port": 0}, "metrics": {"port": 0}})
    findings = await run_checks(LoadedConfig(config, None))
    assert [found.subject for found in findings] == list(CHECKS)


async def test_a_guest_is_compared_with_its_homeserver(tmp_path: Path) -> None:
    """As `palaver registration --check` does; a homeserver needs none."""
    assert (await _find("matrix backend", _patient(tmp_path))).verdict is Verdict.OK
    url = f"http://127.0.0.1:{lasting_port()}"
    section = {"homeserver": url, "domain": "their.server", "registration": tmp_path / "registration.yaml"}
    context = _patient(tmp_path, matrix_side="appservice", appservice=section)
    with pytest.raises(LocalError, match="There is no registration"):
        await _find("matrix backend", context)
    write(tmp_path / "registration.yaml", wanted(context.config.appservice, "localhost:7676"))
    found = await _find("matrix backend", context)
    assert (found.verdict, f"does not respond at {url}" in found.text) == (Verdict.FAULT, True)


async def test_a_directory_that_is_none(tmp_path: Path) -> None:
    """A file stands where the data should be."""
    (tmp_path / "data").write_text("")
    assert (await _find("data directory", _patient(tmp_path / "data"))).verdict is Verdict.FAULT
    assert (await _find("data directory", _patient(tmp_path / "new"))).verdict is Verdict.OK


async def test_a_development_certificate_on_a_public_name_is_noted(tmp_path: Path) -> None:
    """It works here and is refused everywhere else."""
    context = _patient(tmp_path, server_name="kitchen.local")
    assert (await _find("certificate", context)).verdict is Verdict.OK
    from bridge.config.settings import tls_files

    tls_files(context.config)
    found = await _find("certificate", context)
    assert (found.verdict, "do not trust" in found.text) == (Verdict.NOTE, True)


async def test_a_certificate_for_another_name_is_noted(tmp_path: Path) -> None:
    """Delegation may make it right, so it is no fault."""
    from federation.http.server.development_certificate import ensure

    made = ensure(tmp_path / "tls", "other.example.org")
    listener = {"certificate": made.certificate, "private_key": made.private_key}
    found = await _find("certificate", _patient(tmp_path, server_name="kitchen.local", listener=listener))
    assert (found.verdict, "not for kitchen.local" in found.text) == (Verdict.NOTE, True)
    found = await _find("certificate", _patient(tmp_path, server_name="other.example.org", listener=listener))
    assert found.verdict is Verdict.OK


async def test_the_signing_key_is_counted(tmp_path: Path) -> None:
    """The current one by its id, the old ones by their number."""
    files = LocalKeyFiles(tmp_path)
    keys = files.rotate(files.load_or_create(), 1)
    found = await _find("signing key", _patient(tmp_path))
    assert keys.current.key_id in found.text
    assert "1 older" in found.text


async def test_an_external_database_is_looked_at(
    tmp_path: Path, empty_address: DatabaseAddress, database: Database
) -> None:
    """Pending migrations are noted, another node's database is refused, which the report has as a fault."""
    found = await _find("database", _patient(tmp_path, database={"url": empty_address.url}))
    assert (found.verdict, "pending" in found.text) == (Verdict.NOTE, True)
    async with database.transaction() as connection:
        await claim(connection, "kitchen.local")
    context = _patient(tmp_path, database={"url": database.address.url})
    with pytest.raises(LocalError, match=r"kitchen\.local"):
        await _find("database", context)


async def test_a_schema_newer_than_the_code_is_a_fault(
    tmp_path: Path, database_address: DatabaseAddress
) -> None:
    """With the versions of both."""
    connection = await connect_once(database_address)
    await connection.execute("INSERT INTO schema_migrations VALUES (9999, 'later', 'x')")
    await connection.close()
    config = Config.model_validate({"data_dir": tmp_path, "database": {"url": database_address.url}})
    findings = {found.subject: found for found in await run_checks(LoadedConfig(config, None))}
    assert "9999" in findings["database"].text
    assert findings["database"].verdict is Verdict.FAULT


async def test_events_that_could_not_be_handled_are_noted(tmp_path: Path) -> None:
    """How many, and which one was the last."""
    assert (await _find("inbox", _patient(tmp_path))).verdict is Verdict.OK
    assert (await _find("inbox", _patient(tmp_path, {"set_aside": []}))).verdict is Verdict.OK
    one = {"reader": "people", "room_id": "!r:here", "event_id": "$e", "problem": "KeyError: 'x'", "total": 3}
    found = await _find("inbox", _patient(tmp_path, {"set_aside": [one]}))
    assert found.verdict is Verdict.NOTE
    for part in ("3 events", "$e", "!r:here", "people", "KeyError: 'x'"):
        assert part in found.text
    assert found.advice


async def test_a_node_that_is_not_ready_is_a_fault(tmp_path: Path) -> None:
    """In the node's own words."""
    status = {
        "ready": False,
        "checks": {"database": "It does not respond.", "listeners": "fine"},
        "server_name": "x",
    }
    found = await _find("node", _patient(tmp_path, status))
    assert (found.verdict, "It does not respond." in found.text) == (Verdict.FAULT, True)
    assert (await _find("database", _patient(tmp_path, status))).verdict is Verdict.FAULT


async def test_somebody_else_on_the_port_is_told(tmp_path: Path, unused_tcp_port: int) -> None:
    """The status says one thing, the port another."""
    found = await _find("port", _patient(tmp_path, {"addresses": [f"127.0.0.1:{unused_tcp_port}"]}))
    assert (found.verdict, "does not respond" in found.text) == (Verdict.FAULT, True)


async def test_metrics_that_are_off_need_no_port(tmp_path: Path) -> None:
    """Nothing to run_checks."""
    found = await _find("metrics", _patient(tmp_path, metrics={"enabled": False}))
    assert (found.verdict, found.text) == (Verdict.OK, "Disabled.")


@pytest.mark.parametrize("subject", list(CHECKS))
async def test_no_examination_writes_anything(tmp_path: Path, subject: str) -> None:
    """Whoever looks changes nothing."""
    listener, metrics = {"port": 0}, {"port": 0}
    await _find(subject, _patient(tmp_path / "data", listener=listener, metrics=metrics))
    assert list(tmp_path.iterdir()) == []


async def test_the_schema_made_by_migrations_is_up_to_date(
    tmp_path: Path, empty_address: DatabaseAddress
) -> None:
    """Nothing pending, nobody's yet."""
    pool = await Database.connect(empty_address, minimum=1, maximum=1)
    await migrate(pool)
    await pool.close()
    found = await _find("database", _patient(tmp_path, database={"url": empty_address.url}))
    assert found.verdict is Verdict.OK
