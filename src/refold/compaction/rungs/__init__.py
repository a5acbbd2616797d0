"""The old name of `refold.compaction.strategies`; works for one release, with a warning."""

import warnings

from refold.compaction import strategies

warnings.warn(f"{__name__} is now called {strategies.__name__}", DeprecationWarning, stacklevel=2)
__path__ = strategies.__path__
