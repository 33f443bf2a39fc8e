"""What only one node is to read."""

import pytest
from nacl.signing import SigningKey

from bridge.connectors.offices.federated.sealing import Sealing

ID, BOSS = "0" * 32, "@boss:a.test"


def sealing(seed: bytes) -> Sealing:
    key = SigningKey(seed * 32)
    return Sealing(lambda: key)


def test_it_is_opened_by_whom_it_is_for() -> None:
    """As it was said, numbers with fractions too, and by nobody else."""
    ours, others = sealing(b"a"), sealing(b"b")
    said = {"x": 1.5, "y": ["ü", None]}
    sealed = Sealing.seal(ours.box, ID, BOSS, said)
    assert ours.open(sealed, ID, BOSS) == said
    assert "ü".encode() not in sealed
    with pytest.raises(ValueError, match="cannot be opened"):
        others.open(sealed, ID, BOSS)


def test_it_cannot_be_said_again_elsewhere() -> None:
    """Under another id, or by somebody else, it is worth nothing."""
    ours = sealing(b"a")
    sealed = Sealing.seal(ours.box, ID, BOSS, {})
    for id_, sender in (("1" * 32, BOSS), (ID, "@mallory:b.test")):
        with pytest.raises(ValueError, match="another place"):
            ours.open(sealed, id_, sender)


@pytest.mark.parametrize("damaged", [b"", b"x", b"x" * 200])
def test_what_was_not_sealed(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be opened"):
        sealing(b"a").open(damaged, ID, BOSS)


@pytest.mark.parametrize("box", ["", "%", "c2hvcnQ=", "é"])
def test_what_is_no_key(box: str) -> None:
    with pytest.raises(ValueError, match="cannot be sealed"):
        Sealing.seal(box, ID, BOSS, {})


def test_what_is_no_json() -> None:
    with pytest.raises(ValueError, match="cannot be sealed"):
        Sealing.seal(sealing(b"a").box, ID, BOSS, {"x": object()})
