"""Fixtures are kept in `tests/support`, one file a subject; this lists them."""

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.support.node",
    "tests.support.postgres",
    "tests.support.synapse.fixtures",
    "tests.support.driven_node.fixtures",
]

# No test depends on how fast the machine is at the moment, those of examples included.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
