"""The durable event stream and its readers: positions, cursors, leases, wake-ups."""
