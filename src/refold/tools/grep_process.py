"""A child process that searches files, given as open descriptors, for a pattern; standard library only.

Its output is that of ripgrep with `--null --line-number`: `PATH NUL LINE:TEXT`. A separate process,
because a pattern can keep Python busy forever, and only a process can be killed.
"""

import re
import sys


def main() -> None:
    wanted = re.compile(sys.argv[1])
    out = sys.stdout.buffer
    for path in sys.argv[2:]:
        with open(path, "rb") as file:
            rows = file.read().split(b"\n")
        if rows[-1] == b"":
            rows.pop()
        for number, row in enumerate(rows, 1):
            text = row.removesuffix(b"\r")
            if wanted.search(text.decode(errors="replace")):
                out.write(b"%s\0%d:%s\n" % (path.encode(), number, text))


if __name__ == "__main__":
    main()
