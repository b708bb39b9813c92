"""The symmetric multi-task GP of Bonilla, Chai & Williams (2008)."""
