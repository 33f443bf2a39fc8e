"""Media: the table of media, and the files with their content."""
