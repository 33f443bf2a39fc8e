"""The shared parts of all benchmarks: rows, rounds, medians, the table, the last line, child processes."""
