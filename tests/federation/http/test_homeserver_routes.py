"""Everything that a homeserver answers to others."""

import pkgutil

from federation.http import app, endpoints
from federation.http.app import ENDPOINTS


def test_no_endpoint_is_forgotten() -> None:
    """A file among the endpoints is served: here, or by every application, also without a homeserver."""
    served = {module.__name__.rpartition(".")[2] for module in (*ENDPOINTS, *app.COMMON_ENDPOINTS)}
    assert served == {module.name for module in pkgutil.iter_modules(endpoints.__path__)}
