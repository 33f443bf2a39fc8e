"""The registration file, its namespaces and tokens, and the checks of the connection."""
