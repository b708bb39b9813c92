"""Reference methods of the papers: AZ, DP-MT and regularised multi-task learning."""
