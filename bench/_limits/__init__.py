"""The rows of `bench.limits`, one file per family, and the child processes that some of them need."""
