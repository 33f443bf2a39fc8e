"""The contract between the core and what carries its rooms, held against both sides."""

import pytest

# What is asserted there is shown as in a test's own file.
pytest.register_assert_rewrite(
    "tests.connectors.behaviours",
    "tests.connectors.contract",
    "tests.connectors.setup",
    "tests.connectors.stream_recorder",
)
