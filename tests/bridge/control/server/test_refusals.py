"""What others say, told to the operator."""

from bridge.control.server.arguments import sentence, told
from federation.matrix.errors import MatrixError, PeerError


def test_whose_refusal_it_is_is_said() -> None:
    """The other server's, or the rules'."""
    assert sentence(PeerError("a.test", "answered 404")) == "a.test answered 404."
    assert sentence(MatrixError("M_FORBIDDEN", "You are banned.", 403)) == "You are banned. (M_FORBIDDEN)"
    refused = told(PeerError("a.test", "answered 404"), "Ask there.")
    assert (refused.problem, refused.advice) == ("a.test answered 404.", "Ask there.")
