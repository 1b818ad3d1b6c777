"""The socket of a command that serves."""

from __future__ import annotations

import os
import socket

from recprism.errors import InputError


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        InputError: If there is no such host, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen()  # a browser that follows the link at once waits instead of being refused
    except (socket.gaierror, UnicodeError):  # the latter for labels that are empty or too long
        listener.close()
        raise InputError(f"--host {host}: no such name; write 127.0.0.1 or an address of this machine") from None
    except OSError as problem:
        listener.close()
        raise InputError(
            f"cannot listen on {host}:{port} ({os.strerror(problem.errno or 0)}); choose another --port or --host"
        ) from None
    return listener


def in_link(host: str) -> str:
    """Return a host as it is written in an address."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
