"""The defaults of a request to create a room."""

from federation.rooms.creation import CreateRoomRequest


def test_the_defaults_of_a_room() -> None:
    """Private, of the default version, federated."""
    request = CreateRoomRequest(creator="@a:b")
    assert (request.version, request.preset, request.federate, request.listed) == (
        "12",
        "private_chat",
        True,
        False,
    )
