"""Where another server's media may really be: the `Location` that stands in place of the bytes.

Server-server API, "Content Repository": a part "with a Location header […] the location may be used to
retrieve the media", as from a CDN. The address is the peer's word, so that it must lead to nothing of ours.
"""

from ipaddress import ip_network
from typing import Final

from yarl import URL

from federation.admission import Network

_LONGEST: Final = 8 * 1024

# RFC 6890 and the registries that it set up: no public server has such an address. Those that hold an IPv4
# address inside (NAT64, 6to4, Teredo) lead to it.
NOT_PUBLIC: Final[tuple[Network, ...]] = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
        "3fff::/20", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip


def read_location(text: str) -> URL | None:
    """An absolute `https` address of a host that has a name; None for all else.

    A CDN has a name. An address in its place would not be looked up, and so would pass by the check of where
    a name leads; 127.1 and 0x7f000001 are addresses too, and end in a digit as no name does.
    """
    if len(text) > _LONGEST or not text.isascii() or not text.isprintable():
        return None
    try:
        url = URL(text, encoded=True)
        host = url.raw_host or ""
        fits = url.scheme == "https" and url.port is not None and url.raw_user is None
    except ValueError:
        return None
    last = host.rstrip(".").rpartition(".")[2]
    if not fits or url.raw_password is not None or not last or ":" in host or "[" in host:
        return None
    return None if last[0].isdigit() else url
