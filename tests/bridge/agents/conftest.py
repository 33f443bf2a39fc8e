"""Event loops end processes in different ways, so these tests run on both."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.federation.http.running import LOOPS


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return LOOPS if item.path.name == "test_process.py" else {"uvloop": LOOPS["uvloop"]}
