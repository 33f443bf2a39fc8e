"""The settings of media."""

from federation.media.media import MIB, MediaSettings


def test_the_defaults_fit_together() -> None:
    """One medium fits into the cache many times, and what one may upload others may fetch."""
    settings = MediaSettings()
    assert settings.max_upload_size == settings.max_remote_size == 50 * MIB
    assert settings.remote_cache_size > 10 * settings.max_remote_size
