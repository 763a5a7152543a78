"""A PostgreSQL server of a test's own: on loopback, in a temporary folder, gone afterwards."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from tests.skip_conditions import needs


def programs() -> Path | None:
    """The folder of initdb and postgres: on the PATH, or where Debian puts its newest."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    packaged = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((p.parent for p in packaged), key=lambda p: float(p.parent.name), default=None)


def owner() -> dict:
    """As whom the server runs: it refuses to be root, so a root hands it to somebody without rights."""
    import pwd

    if os.getuid():
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise OSError("There is no user postgres or nobody that the server could run as.")


@contextlib.contextmanager
def server():
    """Yields a function that makes an empty database and returns its URL."""
    needs(find_spec("psycopg"), "PostgreSQL's driver is missing: pip install 'psycopg[binary]'.")
    needs(programs(), "PostgreSQL is missing: apt-get install postgresql.")
    who, password = owner(), secrets.token_hex(16)
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        (folder / "password").write_text(password, encoding="ascii")
        for path in (folder, folder / "password"):
            os.chown(path, who.get("user", -1), who.get("group", -1))
            path.chmod(0o700)
        made = subprocess.run(
            [programs() / "initdb", "-D", folder / "data", "-U", "grader", "-E", "UTF8", "--locale=C", "--no-sync",
             "--auth=scram-sha-256", f"--pwfile={folder / 'password'}"],
            cwd=folder, capture_output=True, text=True, **who,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        with _running(folder, password, who) as port:
            yield lambda: _database(port, password)
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _running(folder: Path, password: str, who: dict):
    """Its port while it runs; another one is tried if somebody takes the first before the server does."""
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with open(folder / "log", "w") as log:
            process = subprocess.Popen(
                [programs() / "postgres", "-D", folder / "data", "-p", str(port), "-h", "127.0.0.1",
                 "-c", "unix_socket_directories=", "-c", "fsync=off"],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **who,
            )  # fmt: skip
        try:
            if _ready(process, port, password):
                yield port
                return
        finally:
            process.send_signal(signal.SIGINT)  # no new connections, end the old ones, stop
            process.wait(60)
    raise RuntimeError((folder / "log").read_text(errors="replace")[-2000:])


def _ready(process, port: int, password: str) -> bool:
    import psycopg

    for _ in range(600):
        if process.poll() is not None:
            return False
        try:
            psycopg.connect(_url("postgres", port, password)).close()
            return True
        except psycopg.OperationalError:
            time.sleep(0.1)
    return False


def _url(name: str, port: int, password: str) -> str:
    return f"postgresql://grader:{password}@127.0.0.1:{port}/{name}"


def _database(port: int, password: str) -> str:
    import psycopg

    name = f"course_{secrets.token_hex(4)}"
    with psycopg.connect(_url("postgres", port, password), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return _url(name, port, password).replace("postgresql:", "postgresql+psycopg:")
