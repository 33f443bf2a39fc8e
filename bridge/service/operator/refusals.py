"""What other servers and the rules of rooms say, told to the operator."""

from federation.errors import MatrixError, PeerError
from storage.errors import LocalError


def told(error: MatrixError | PeerError, advice: str) -> LocalError:
    return LocalError(sentence(error), advice)


def sentence(error: MatrixError | PeerError) -> str:
    """Whose refusal it is, and in which words."""
    if isinstance(error, PeerError):
        return f"{error.peer} {error.problem.rstrip('.')}."
    return f"{error.text} ({error.errcode})"
