"""An unavailable homeserver is handled like an unavailable database."""

from appservice.homeserver.api import HomeserverUnavailable
from storage.connect import ConnectionLost, is_connection_loss


def test_it_is_a_lost_connection() -> None:
    """Code above a Matrix backend retries automatically after both."""
    away = HomeserverUnavailable("http://127.0.0.1:8008", "the request timed out")
    assert isinstance(away, ConnectionLost)
    assert is_connection_loss(away)
    assert away.problem == "The homeserver at http://127.0.0.1:8008 does not respond (the request timed out)."
    assert "Postgres" not in away.advice
