"""The explorer: sessions in the browser, served only to this machine.

`session_list` lists and searches sessions, `timeline` shows one of them, `what_if` plans with another preset,
`gateway_stats` reads the counts of a running gateway, and `server` serves the page, which is plain HTML, CSS
and JavaScript in `page/`. Needs the extra `gateway` (`pip install "refold[gateway]"`), which installs
aiohttp.
"""

from __future__ import annotations
