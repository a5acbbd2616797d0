"""The terminal, as commands print to it (R17).

Texts in a table, a title or a line come from transcripts, models and files. None of them is read as markup,
and none of them sends the terminal anything but characters: all of it is cleaned where it is rendered, so no
command can forget to. Styles are given beside the text, never inside it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from refold.text.terminal import clean

UNBOUNDED = 100_000
"""Columns of a file or a pipe: nothing is wrapped or cut there, so that searches find it."""
DEFAULT_COLUMNS = 200
"""Columns of a first line where the output has no width."""


class Screen(Console):
    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, soft_wrap=False, stderr=stderr)
        self.is_piped = not self.file.isatty()
        if self.is_piped:
            self.soft_wrap, self.width = True, UNBOUNDED

    @property
    def columns(self) -> int:
        """Columns for what is shortened to one line on purpose."""
        return DEFAULT_COLUMNS if self.is_piped else self.width

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            # Control segments are rich's own: cursor movements of a progress bar.
            yield segment if segment.control else Segment(clean(segment.text), segment.style)
