"""What every estimator shares: validation, prediction at the public edge, warnings."""
