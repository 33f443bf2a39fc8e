"""CORS."""

from bridge.provisioning.services import HEADERS


def test_headers() -> None:
    """ "Servers MUST expect that clients will approach them with OPTIONS requests […]"."""
    assert HEADERS["Access-Control-Allow-Origin"] == "*"
    assert "Authorization" in HEADERS["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in HEADERS
