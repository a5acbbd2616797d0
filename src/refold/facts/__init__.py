"""What every fold carries: own words, pins, state of the work, lines; abridged history for `augment`."""
