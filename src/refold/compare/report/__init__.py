"""The report: one page that needs no network and runs no script."""

from __future__ import annotations

from refold.compare.report.page import page

__all__ = ["page"]
