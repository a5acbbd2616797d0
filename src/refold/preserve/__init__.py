"""What is carried through every fold: own words, pins, state of the work, lines, identifiers."""
