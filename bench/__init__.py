"""The benchmarks: each one measures the thing and what it is compared with, in one run, on loopback."""
