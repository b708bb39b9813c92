"""One GP per task (no transfer), and one GP for all rows (pooling)."""
