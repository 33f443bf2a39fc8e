"""Runs each test of the port twice: on asyncio's event loop and on uvloop."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from federation.http.server.tls import TlsFiles
from tests.federation.http.running import LOOPS
from tests.support.tls import Authority


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return LOOPS


@pytest.fixture(scope="session")
def authority() -> Authority:
    """The authority that signed the certificate of the listeners."""
    return Authority()


@pytest.fixture(scope="session")
def tls_files(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """A certificate for localhost and the loopback addresses."""
    directory: Path = tmp_path_factory.mktemp("tls")
    return TlsFiles(*authority.issue("localhost", "127.0.0.1", "::1").write(directory, "server"))
