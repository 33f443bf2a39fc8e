"""The benchmarks: each measures its subject and what it is compared with, in one run, on loopback."""
