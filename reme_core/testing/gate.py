"""`Gate`: a proxy in front of Postgres, which tests close to make the database unreachable, and open again."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class Gate:
    """A TCP proxy to a database. Closing it ends all connections and refuses new ones.

    Attributes:
        url: The connection string that leads through the proxy.
    """

    # It uses threads: code under test may block the event loop, and must not block its own connections.

    def __init__(self, database_url: str) -> None:
        parts = conninfo_to_dict(database_url)
        host, port = str(parts.get("host") or "localhost"), int(parts.get("port") or 5432)
        self._target: str | tuple[str, int] = f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener: socket.socket | None = None
        self._port = 0
        self.open()
        self.url = make_conninfo(database_url, host="127.0.0.1", port=self._port)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._pairs)

    def open(self) -> None:
        """Let connections through."""
        listener = socket.create_server(("127.0.0.1", self._port), reuse_port=False)
        self._listener, self._port = listener, listener.getsockname()[1]
        threading.Thread(target=self._serve, args=(listener,), name="gate", daemon=True).start()

    def close(self) -> None:
        """End all connections, and refuse new ones."""
        with self._lock:
            listener, self._listener = self._listener, None
            pairs = list(self._pairs)
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
            listener.close()
        for pair in pairs:
            _end(*pair)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _serve(self, listener: socket.socket) -> None:
        while self._listener is listener:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            pair = (client, server)
            with self._lock:
                closed = self._listener is not listener  # if `close` ran meanwhile, it did not see this connection
                if not closed:
                    self._pairs.add(pair)
            if closed:
                for end in pair:
                    end.close()
                return
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self._pump, args=(source, sink, pair), name="gate", daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, str):
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(self._target)
            return server
        return socket.create_connection(self._target)

    def _pump(self, source: socket.socket, sink: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        _end(*pair)
        with self._lock:
            if pair in self._pairs:
                self._pairs.discard(pair)
                return
        for end in pair:  # the second of the two pumps
            end.close()


def _end(*sockets: socket.socket) -> None:
    for end in sockets:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
