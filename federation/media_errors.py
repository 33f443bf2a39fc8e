"""What is said to whoever asks for media that cannot be given, and what a peer's refusal means for ours."""

from federation.errors import MatrixError, limit_exceeded
from federation.peer_errors import PeerRefused

# How long a peer that asks for too much at once is sent away.
BUSY_MS = 2_000


def not_found() -> MatrixError:
    return MatrixError("M_NOT_FOUND", "This server has no such media.", 404)


def no_address() -> MatrixError:
    return MatrixError("M_INVALID_PARAM", "That is not the address of any media.")


def not_yet_uploaded() -> MatrixError:
    return MatrixError("M_NOT_YET_UPLOADED", "Its uploader has not sent this media yet.", 504)


def upload_too_large(limit: int) -> MatrixError:
    return MatrixError("M_TOO_LARGE", f"This server takes uploads of at most {limit} bytes.", 413)


def remote_too_large(limit: int) -> MatrixError:
    return MatrixError("M_TOO_LARGE", f"The media has more than {limit} bytes: too large to be fetched.", 502)


def image_too_large() -> MatrixError:
    return MatrixError("M_TOO_LARGE", "The image is too large to make a thumbnail of it.", 413)


def no_thumbnail() -> MatrixError:
    return MatrixError("M_UNKNOWN", "No thumbnail can be made of this media.", 400)


def no_room() -> MatrixError:
    return MatrixError("M_UNKNOWN", "This server has no room left for media.", 507)


def busy() -> MatrixError:
    return limit_exceeded("Too many requests for media at the same time.", 429, BUSY_MS)


def is_unaware_of_endpoint(error: PeerRefused) -> bool:
    """Whether the server does not know authenticated media: "a 404 M_UNRECOGNIZED error".

    Servers from before it existed say so in other ways too: 400 or 405, or a 404 that is no Matrix error.
    """
    if error.errcode is None:
        return error.status == 404
    return error.errcode == "M_UNRECOGNIZED" and error.status in {400, 404, 405}


def passed_on(error: PeerRefused) -> MatrixError | None:
    """The origin's word on its own media, where whoever asked here can make something of it."""
    match error.status, error.errcode:
        case 404, _:
            return not_found()
        case 504, "M_NOT_YET_UPLOADED":
            return not_yet_uploaded()
        case 429, _:
            return limit_exceeded(
                "The server of this media is asked too often.", 429, error.retry_after_ms or BUSY_MS
            )
        case ((413 | 502), "M_TOO_LARGE"):
            return MatrixError("M_TOO_LARGE", "The media is too large for its own server.", 502)
    return None
