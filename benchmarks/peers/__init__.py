"""The same work done by other libraries, each in an environment of its own: M5 and pair safety side by side."""
