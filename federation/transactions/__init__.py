"""What other servers send us: transactions, EDUs, typing/presence/receipts."""
