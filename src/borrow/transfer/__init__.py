"""Does the other data help? Which of it, how sure are we, and what to measure next.

Reading order: methods (what is compared) -> problem (a table, read once) -> folds (one fit) -> ledger (the file of
results) -> decide (intervals, the rule) -> shapley (what each secondary is worth) -> attribute (how it is related) ->
verdict (words) -> comparison (findings) -> compare (and the quick look) -> auto -> suggest.
"""
