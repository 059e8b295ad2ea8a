"""Flows and ops: their grammar, the register of ops, and how flows are built and run."""
