"""The outgoing federation client: name resolution, connections, requests."""
