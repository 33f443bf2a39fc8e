"""What is said of media that cannot be given."""

import pytest

from federation.client.errors import PeerRefused
from federation.matrix.errors import MatrixError
from federation.media import media as media_errors


@pytest.mark.parametrize(
    ("error", "status", "errcode"),
    [
        (media_errors.not_found(), 404, "M_NOT_FOUND"),
        (media_errors.invalid_mxc_uri(), 400, "M_INVALID_PARAM"),
        (media_errors.not_yet_uploaded(), 504, "M_NOT_YET_UPLOADED"),
        (media_errors.upload_too_large(5), 413, "M_TOO_LARGE"),
        (media_errors.remote_too_large(5), 502, "M_TOO_LARGE"),
        (media_errors.image_too_large(), 413, "M_TOO_LARGE"),
        (media_errors.no_thumbnail(), 400, "M_UNKNOWN"),
        (media_errors.disk_full(), 507, "M_UNKNOWN"),
        (media_errors.busy(), 429, "M_LIMIT_EXCEEDED"),
    ],
)
def test_each_has_its_code(error: MatrixError, status: int, errcode: str) -> None:
    """As the specification names them."""
    assert (error.status, error.errcode) == (status, errcode)


@pytest.mark.parametrize(
    ("status", "errcode", "unaware"),
    [
        (404, "M_UNRECOGNIZED", True),
        (400, "M_UNRECOGNIZED", True),
        (405, "M_UNRECOGNIZED", True),
        (404, None, True),
        (404, "M_NOT_FOUND", False),
        (403, None, False),
        (502, None, False),
        (500, "M_UNRECOGNIZED", False),
    ],
)
def test_a_server_that_does_not_know_the_endpoint(status: int, errcode: str | None, unaware: bool) -> None:
    """Only then the old way is tried: a medium that is not there is there on no way."""
    assert media_errors.is_unaware_of_endpoint(PeerRefused("a", status, errcode, "")) is unaware


@pytest.mark.parametrize(
    ("status", "errcode", "expected"),
    [
        (404, "M_NOT_FOUND", (404, "M_NOT_FOUND")),
        (504, "M_NOT_YET_UPLOADED", (504, "M_NOT_YET_UPLOADED")),
        (429, "M_LIMIT_EXCEEDED", (429, "M_LIMIT_EXCEEDED")),
        (502, "M_TOO_LARGE", (502, "M_TOO_LARGE")),
        (413, "M_TOO_LARGE", (502, "M_TOO_LARGE")),
        (504, None, None),
        (500, "M_UNKNOWN", None),
        (401, "M_UNAUTHORIZED", None),
    ],
)
def test_what_the_origin_says(status: int, errcode: str, expected: tuple[int, str] | None) -> None:
    """Its word on its media is passed on; its own troubles are not ours to name."""
    error = media_errors.client_error(PeerRefused("a", status, errcode, "", 700))
    assert (None if error is None else (error.status, error.errcode)) == expected
    if status == 429:
        assert error is not None
        assert error.fields == {"retry_after_ms": 700}
