"""The hierarchical GP of Yu, Tresp & Schwaighofer (2005)."""
