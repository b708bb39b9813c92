"""Linear algebra on NumPy and PyTorch, devices, memory, and the optimiser."""
