"""The kind of a request, a metrics label."""

import pytest
from mautrix.api import MediaPath, Path

from appservice.homeserver.responses import request_kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (Path.versions, "versions"),
        (Path.v3.createRoom, "createRoom"),
        (Path.v3.rooms["!a/b:c"].send["m.room.message"]["x/y"], "send"),
        (Path.v3.rooms["!a:c"].state, "state"),
        (Path.v3.rooms["!a:c"].state["x"]["y"], "state"),
        (Path.v1.rooms["!a:c"].relations["$x"], "relations"),
        (Path.v3.join["#a:c"], "join"),
        (Path.v3.directory.room["#a:c"], "directory"),
        (Path.v3.profile["@a:c"].displayname, "profile"),
        (Path.v1.appservice["palaver"].ping, "appservice"),
        (Path.v1.media.download["a.b"]["c"], "download"),
        (MediaPath.v3.upload, "upload"),
        (MediaPath.v3.download["a.b"]["c"], "download"),
        (Path.v3.rooms["!a:c"], "other"),
        (Path.v3["@whoever:it.is"], "other"),
        ("/somewhere/else", "other"),
        ("", "other"),
        (Path, "other"),
    ],
)
def test_kinds_are_a_small_set(path: object, kind: str) -> None:
    """No id becomes a label."""
    assert request_kind(str(path)) == request_kind(f"/{path}") == kind
