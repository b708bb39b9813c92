"""The reference methods: what any transfer must be compared with."""
