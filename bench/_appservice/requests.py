"""The number of requests of clients and application services that a Synapse has answered."""

from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.support.synapse import Synapse

_SAMPLE: Final = "synapse_http_server_requests_received_total"
_READING: Final = frozenset({"SyncRestServlet", "ReceiptRestServlet", "MetricsResource"})


async def requests_answered(synapse: Synapse) -> float:
    """Return the number, without the requests of the load generator's reader and of this measurement."""
    _, _, body = await synapse.homeserver.raw("GET", "/_synapse/metrics")
    return sum(
        sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name == _SAMPLE and sample.labels.get("servlet") not in _READING
    )
