"""The limits of the port."""

import dataclasses

import pytest

from federation.http.server.capacity import KIB, Limits


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Limits)])
def test_nothing_is_unlimited_by_default(field: str) -> None:
    """Each limit is a positive, finite number."""
    assert 0 < getattr(Limits(), field) < float("inf")


def test_a_full_transaction_fits() -> None:
    """50 events of 64 KiB; Synapse accepts 200 of that size."""
    assert Limits().max_body == 200 * 64 * KIB
    assert Limits().max_bodies >= 10 * Limits().max_body
