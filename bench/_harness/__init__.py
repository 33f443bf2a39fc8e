"""What every benchmark has in common: rows, rounds, medians, the table, the last line, children."""
