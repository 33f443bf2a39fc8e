from functools import partial
from http import HTTPStatus

import pytest

from federation.http import responses as refusals

ALL = {name: make for name, make in vars(refusals).items() if isinstance(make, partial)}


@pytest.mark.parametrize("name", ALL)
def test_every_refusal_can_be_sent(name: str) -> None:
    """A status that HTTP knows, an error code of Matrix, and a sentence."""
    error = ALL[name]()
    assert 400 <= HTTPStatus(error.status) < 600
    assert error.errcode.startswith("M_")
    assert error.text


@pytest.mark.parametrize("name", ALL)
def test_every_refusal_is_made_anew(name: str) -> None:
    """A shared exception would hold on to the frames of whoever raised it last."""
    assert ALL[name]() is not ALL[name]()


@pytest.mark.parametrize("name", ALL)
def test_no_refusal_of_ours_can_be_mistaken_for_one_of_the_peers_fault(name: str) -> None:
    """Published CIS nodes look for these numbers anywhere in an error's text, and stop trying."""
    error = ALL[name]()
    assert not any(number in error.text for number in ("400", "401", "403", "404"))
