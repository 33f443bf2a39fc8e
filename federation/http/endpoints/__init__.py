"""Request handlers, one module for each chapter of the specification."""
