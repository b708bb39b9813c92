"""Tables of every form, read once into rows, merged and scaled by task."""
