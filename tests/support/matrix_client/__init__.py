"""A person on a homeserver: the client-server API as far as the tests need it, one file per chapter."""

from tests.support.matrix_client.client import MatrixClient
from tests.support.matrix_client.events import EventPage
from tests.support.matrix_client.homeserver import Homeserver, Json, Refused
from tests.support.matrix_client.media import Media
from tests.support.matrix_client.seen import Event, Seen

__all__ = ["Event", "EventPage", "Homeserver", "Json", "MatrixClient", "Media", "Refused", "Seen"]
