"""What Java starts instead of Python: asks the fork server for a process, and stands for it.

It runs by its path, with nothing but the standard library, so that it takes 20 ms. Where nobody
answers it becomes the Python that Java wanted.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import NoReturn

LENGTH = 8  # bytes in front of a request, and of an answer


def become(python: str, arguments: Sequence[str]) -> NoReturn:
    """Go on as Python itself."""
    os.execv(python, [python, *arguments])


def forked(path: str, arguments: Sequence[str]) -> int | None:
    """The exit code of a process that the server has made for us; None if it makes none.

    The process has our standard streams, environment and folder, and ends when we are told to.
    """
    request = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(path)
            socket.send_fds(server, [len(request).to_bytes(LENGTH, "big")], [0, 1, 2])
            server.sendall(request)
            answer = server.recv(LENGTH)
        except OSError:
            return None
        if len(answer) < LENGTH:
            return None
        process = int.from_bytes(answer, "big")
        signal.signal(signal.SIGTERM, lambda number, frame: os.kill(process, number))
        code = server.recv(1)  # nothing, where it is killed
        return code[0] if code else 1


def main(path: str, python: str, *arguments: str) -> NoReturn:
    """path: where the server listens; python: with which arguments Java wanted which Python."""
    if arguments[:1] == ("-m",):
        code = forked(path, arguments[1:])
        if code is not None:
            os._exit(code)
    become(python, arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
