"""Media rows and files."""
