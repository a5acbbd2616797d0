"""What a report holds in its compressed blocks."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any


def blocks(document: str) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="text/plain" class="block">([^<]*)</script>', document)
    return [json.loads(gzip.decompress(base64.b64decode(packed))) for packed in found]


def everything(document: str) -> str:
    """All that a reader can get to see: the page, and what its script unpacks."""
    return document + "\n".join(
        json.dumps(block, ensure_ascii=False).replace("\\n", "\n") for block in blocks(document)
    )
