"""The rows of `bench.limits`, one file a family, and the children that some of them need."""
