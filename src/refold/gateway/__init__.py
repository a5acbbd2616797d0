"""The gateway: between any OpenAI or Anthropic client and any upstream, `refold serve`.

The client keeps sending its whole history; the upstream gets a view that fits. What fits already goes through
byte for byte. Needs the extra `gateway` (`pip install "refold[gateway]"`).
"""

from __future__ import annotations
