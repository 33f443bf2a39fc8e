"""Errors of rooms and peers, converted for the operator."""

from bridge.control.server.arguments import describe_error, to_local_error
from federation.matrix.errors import MatrixError, PeerError


def test_an_error_names_its_source() -> None:
    """A peer, or the error code of a rule."""
    assert describe_error(PeerError("a.test", "answered 404")) == "a.test answered 404."
    assert describe_error(MatrixError("M_FORBIDDEN", "You are banned.", 403)) == "You are banned. (M_FORBIDDEN)"
    refused = to_local_error(PeerError("a.test", "answered 404"), "Ask there.")
    assert (refused.problem, refused.advice) == ("a.test answered 404.", "Ask there.")
