"""What the configuration says of media."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024
DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """Sizes in bytes, times in milliseconds."""

    max_upload_size: int = 50 * MIB
    # Of media of other servers: one of it, all of it together, and how long nobody may have looked at it.
    max_remote_size: int = 50 * MIB
    remote_cache_size: int = 2048 * MIB
    remote_cache_age: int = 30 * DAY_MS
    # Pixels of a picture that a thumbnail is made of, and seconds that it may take.
    max_image_pixels: int = 32_000_000
    thumbnail_timeout: float = 20.0
    # What is left on the disk for everything else: a Postgres that finds it full stops.
    reserve: int = 256 * MIB
