"""The parts of `bench/federation.py`: the servers, their common load, and the measurements."""
