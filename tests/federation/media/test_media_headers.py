"""The headers of media."""

from federation.media.location import SAFETY, media_headers


def test_media_is_described() -> None:
    """Its type, and whether it is to be shown."""
    assert media_headers("image/png", "a.png") == {
        "Content-Type": "image/png",
        "Content-Disposition": 'inline; filename="a.png"',
    }
    assert media_headers("text/html", None)["Content-Disposition"] == "attachment"


def test_nothing_in_it_runs() -> None:
    """ "sandbox; default-src 'none'": no script, no plug-in, no guessing of types."""
    policy = SAFETY["Content-Security-Policy"]
    for directive in ("sandbox", "default-src 'none'", "script-src 'none'", "object-src 'none'"):
        assert directive in policy.split("; ")
    assert "allow-" not in policy
    assert SAFETY["X-Content-Type-Options"] == "nosniff"
    assert SAFETY["Cross-Origin-Resource-Policy"] == "cross-origin"
