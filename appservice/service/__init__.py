"""The shells: load, decide, store, send."""
