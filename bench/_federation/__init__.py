"""The parts of `bench/federation.py`: the servers, the load that both get alike, and what is read off it."""
