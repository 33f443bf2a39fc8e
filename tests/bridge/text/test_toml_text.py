"""Values as TOML on one line."""

import tomllib
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ByteSize

from bridge.text.toml_text import toml_value

printable = st.text(st.characters(exclude_categories=("Cs",)))
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | printable,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(printable, inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_a_written_value_can_be_read(value: Any) -> None:
    """Reading it returns the same value."""
    assert tomllib.loads(f"value = {toml_value(value)}")["value"] == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ByteSize(32 * 1024), '"32KiB"'),
        (ByteSize(3 << 30), '"3GiB"'),
        (ByteSize(0), '"0B"'),
        (Path("data"), '"data"'),
        (ip_network("::1/128"), '"::1/128"'),
        ({"server_name": "a"}, '{ server_name = "a" }'),
        ({"*": "look", "@a:b.c": "work"}, '{ "*" = "look", "@a:b.c" = "work" }'),
    ],
)
def test_settings_are_written_as_in_the_configuration(value: Any, text: str) -> None:
    """Sizes with their unit, paths and networks as text."""
    assert toml_value(value) == text
