"""The TLS-and-plain listener: accept, admit, limits, deadlines."""
