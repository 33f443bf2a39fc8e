"""The errors of the port."""

from functools import partial
from http import HTTPStatus

import pytest

from federation.http import responses as refusals

ALL = {name: make for name, make in vars(refusals).items() if isinstance(make, partial)}


@pytest.mark.parametrize("name", ALL)
def test_all_refusals_are_valid_errors(name: str) -> None:
    """An HTTP status, a Matrix error code, and a sentence."""
    error = ALL[name]()
    assert 400 <= HTTPStatus(error.status) < 600
    assert error.errcode.startswith("M_")
    assert error.text


@pytest.mark.parametrize("name", ALL)
def test_each_refusal_is_a_new_exception(name: str) -> None:
    """A shared one would keep the frames of its last traceback."""
    assert ALL[name]() is not ALL[name]()


@pytest.mark.parametrize("name", ALL)
def test_refusals_contain_no_http_status(name: str) -> None:
    """Published CIS nodes search error texts for statuses and stop retrying."""
    error = ALL[name]()
    assert not any(number in error.text for number in ("400", "401", "403", "404"))
