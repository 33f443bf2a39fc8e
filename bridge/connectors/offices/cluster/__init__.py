"""One office in several processes."""
