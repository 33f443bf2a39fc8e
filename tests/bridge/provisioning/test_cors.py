"""What lets a page in a browser ask."""

from bridge.provisioning.services import HEADERS


def test_any_page_may_ask_with_a_token() -> None:
    """ "Servers MUST expect that clients will approach them with OPTIONS requests […]" and answer so."""
    assert HEADERS["Access-Control-Allow-Origin"] == "*"
    assert "Authorization" in HEADERS["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in HEADERS
