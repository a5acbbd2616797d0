"""The gateway (`refold serve`): a proxy between any OpenAI or Anthropic client and any upstream.

The client keeps sending its whole history; the upstream gets a view that fits. A request that already fits is
passed on byte for byte. Needs the extra `gateway` (`pip install "refold[gateway]"`).
"""

from __future__ import annotations
