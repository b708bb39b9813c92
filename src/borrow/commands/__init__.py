"""The commands of `borrow`, one file each. No mathematics: options and tables in, results out."""
