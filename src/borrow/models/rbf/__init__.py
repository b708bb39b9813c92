"""The multi-task RBF network of Liao & Carin (2006)."""
