"""The settings of media."""

from federation.media.media import MIB, MediaSettings


def test_the_defaults_are_consistent() -> None:
    """The cache holds many of the largest files, and an upload may be as large as a download."""
    settings = MediaSettings()
    assert settings.max_upload_size == settings.max_remote_size == 50 * MIB
    assert settings.remote_cache_size > 10 * settings.max_remote_size
