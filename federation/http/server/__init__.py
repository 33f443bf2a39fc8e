"""The listener for TLS and plain HTTP: accepting, limits, deadlines and TLS."""
