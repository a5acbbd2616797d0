"""The terminal output of commands (R17).

Text in tables, titles and lines comes from transcripts, models and files. It is never interpreted as markup
and is cleaned of control characters when rendered, so that no command can forget to. Styles are passed beside
the text, never inside it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from refold.text.terminal import clean

UNBOUNDED = 100_000
"""Width of a file or a pipe, where nothing is wrapped or cut."""
DEFAULT_COLUMNS = 200
"""Width of a shortened line if the output has no width."""


class Screen(Console):
    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, soft_wrap=False, stderr=stderr)
        self.is_piped = not self.file.isatty()
        if self.is_piped:
            self.soft_wrap, self.width = True, UNBOUNDED

    @property
    def columns(self) -> int:
        """Width for text that is shortened to one line."""
        return DEFAULT_COLUMNS if self.is_piped else self.width

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            # Control segments are rich's own: cursor movements of a progress bar.
            yield segment if segment.control else Segment(clean(segment.text), segment.style)
