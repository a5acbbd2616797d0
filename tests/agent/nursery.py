"""Imports the command line, then forks a child for each order; see `tests.agent.terminal`."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import termios
from importlib import metadata, readers  # noqa: F401

from prompt_toolkit import patch_stdout, shortcuts  # noqa: F401
from prompt_toolkit.input import vt100  # noqa: F401
from prompt_toolkit.key_binding.bindings import search  # noqa: F401
from rich import markdown  # noqa: F401

from refold import Engine, Session
from refold.agent import chat, folder_sessions, snapshots  # noqa: F401
from refold.cli import chat as _chat  # noqa: F401
from refold.cli import chat_commands, chat_once, chat_terminal, console, main  # noqa: F401
from refold.models import script_file  # noqa: F401
from refold.registry import models  # noqa: F401
from refold.stores import sqlite  # noqa: F401
from refold.tokens import get


def child(order: dict[str, object], terminal: int) -> None:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for number in (0, 1, 2):
        os.dup2(terminal, number)
    os.chdir(str(order["folder"]))
    os.environ.clear()
    os.environ.update(order["environment"])  # pyright: ignore
    sys.argv = ["refold", *order["start"]]  # pyright: ignore
    try:
        main()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1 if left.code else 0
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 70
    else:
        status = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def serve(orders: socket.socket) -> None:
    Engine().view(Session()).tokens  # what is loaded late is loaded now, the vocabulary above all
    get("o200k").text("x")
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, 65536, 1)
        if not data:
            return
        order = json.loads(data)
        if "wait" in order:
            orders.send(json.dumps({"status": os.waitpid(order["wait"], 0)[1]}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            orders.close()
            child(order, descriptors[0])
        os.close(descriptors[0])
        orders.send(json.dumps({"pid": pid}).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
