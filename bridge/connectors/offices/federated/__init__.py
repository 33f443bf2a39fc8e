"""One office on several nodes."""
