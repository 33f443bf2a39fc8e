"""Services for people on an attached node, without a homeserver. With one:
`tests/interop/test_provisioning.py` and `tests/interop/test_double_puppets.py`."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bridge.config.appservice import wanted
from bridge.config.config import Config
from bridge.config.people import wanted_puppets
from bridge.node.appservice_people import AppservicePeople
from bridge.node.registration import write_double_puppet
from bridge.provisioning.login import KEY_FILE
from storage.errors import LocalError


def people(directory: Path, **sections: Any) -> tuple[AppservicePeople, Config]:
    config = Config.model_validate(
        {
            "server_name": "kitchen.local",
            "matrix_side": "appservice",
            "data_dir": directory,
            "appservice": {"homeserver": "http://127.0.0.1:1", "domain": "their.server"},
            **sections,
        }
    )
    namespaces = wanted(config.appservice, config.server_name).namespaces
    return AppservicePeople(
        config, namespaces, now_ms=lambda: 1, report=lambda sentence, error: pytest.fail(sentence)
    ), config


def test_key_exists_if_people_can_log_in(tmp_path: Path) -> None:
    """Otherwise no file is created."""
    without, _ = people(tmp_path, double_puppet={"tokens": False})
    without.prepare()
    assert list(tmp_path.iterdir()) == []
    one, _ = people(tmp_path)
    one.prepare()
    assert [file.name for file in tmp_path.iterdir()] == [KEY_FILE]


def test_file_problems_are_found_first(tmp_path: Path) -> None:
    """A weak secret, a missing registration, another registration: each has its sentence."""
    secret = tmp_path / "secret"
    secret.write_text("short")
    one, _ = people(tmp_path, provisioning={"shared_secret": secret})
    with pytest.raises(LocalError, match="at least 32 characters"):
        one.prepare()
    file = tmp_path / "double-puppet.yaml"
    section = {"enabled": True, "registration": file}
    one, config = people(tmp_path, double_puppet=section)
    with pytest.raises(LocalError) as missing:
        one.prepare()
    assert "palaver registration --double-puppet" in missing.value.advice
    write_double_puppet(file, wanted_puppets(config.double_puppet, config.appservice))
    one.prepare()
    other, _ = people(tmp_path, double_puppet={**section, "id": "other"})
    with pytest.raises(LocalError, match="does not match the configuration"):
        other.prepare()


def test_provisioning_is_served_if_enabled(tmp_path: Path) -> None:
    """On the homeserver's port."""
    for is_enabled in (True, False):
        app = web.Application()
        one, _ = people(tmp_path, provisioning={"enabled": is_enabled})
        one.serve(app)
        paths = {resource.canonical for resource in app.router.resources()}
        assert ("/_matrix/provision/v3/whoami" in paths) is is_enabled
