"""The multi-task informative vector machine of Lawrence & Platt (2004)."""
