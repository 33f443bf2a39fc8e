"""The contract of a Matrix backend, tested with both backends."""

import pytest

# Rewrite assertions there as in test modules.
pytest.register_assert_rewrite(
    "tests.connectors.behaviours",
    "tests.connectors.contract",
    "tests.connectors.setup",
    "tests.connectors.stream_recorder",
)
