"""The routes of a homeserver."""

import pkgutil

from federation.http import app, endpoints
from federation.http.app import ENDPOINTS


def test_all_endpoint_modules_are_served() -> None:
    """By a homeserver, or by each application."""
    served = {module.__name__.rpartition(".")[2] for module in (*ENDPOINTS, *app.COMMON_ENDPOINTS)}
    assert served == {module.name for module in pkgutil.iter_modules(endpoints.__path__)}
