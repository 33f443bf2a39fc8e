"""Transactions from other servers: PDUs, and EDUs such as typing, presence and receipts."""
