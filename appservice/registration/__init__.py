"""The registration file and its namespaces."""
