"""A homeserver that is away is borne as a database that is away."""

from appservice.homeserver.api import HomeserverUnavailable
from storage.connect import ConnectionLost, is_connection_loss


def test_whoever_bears_a_lost_connection_bears_it() -> None:
    """Work above a Matrix side goes on by itself once what it stands on is there again."""
    away = HomeserverUnavailable("http://127.0.0.1:8008", "the request timed out")
    assert isinstance(away, ConnectionLost)
    assert is_connection_loss(away)
    assert away.problem == "The homeserver at http://127.0.0.1:8008 does not respond (the request timed out)."
    assert "Postgres" not in away.advice
