"""A room as somebody asks for it."""

from federation.rooms.creation import CreateRoomRequest


def test_a_room_is_private_of_the_newest_version_and_open_to_other_servers() -> None:
    """Who says nothing gets what does least harm."""
    request = CreateRoomRequest(creator="@a:b")
    assert (request.version, request.preset, request.federate, request.listed) == (
        "12",
        "private_chat",
        True,
        False,
    )
