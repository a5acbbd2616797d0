"""A child process that looks for a pattern in files it was handed as open descriptors; stdlib only.

It speaks as ripgrep does with `--null --line-number`: `PATH NUL LINE:TEXT`. In a process of its own, because
a pattern can keep Python busy for ever, and only a process can be ended.
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
