"""What is carried through every fold: constraints, pins, trail, abridged history, identifiers."""
