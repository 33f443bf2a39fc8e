"""Fixtures are kept in `tests/support`, one file a subject; this lists them."""

pytest_plugins = [
    "tests.support.node",
    "tests.support.postgres",
    "tests.support.synapse.fixtures",
    "tests.support.driven_node.fixtures",
]
