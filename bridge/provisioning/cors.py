"""What lets a page in a browser ask. Client-server API, "Web Browser Clients"."""

from collections.abc import Mapping
from typing import Final

HEADERS: Final[Mapping[str, str]] = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "X-Requested-With, Content-Type, Authorization",
}
"""Nothing that a browser would add by itself is looked at, so that a foreign page can do nothing with it."""
