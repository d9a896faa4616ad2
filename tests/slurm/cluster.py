"""A real Slurm cluster for tests: one node on loopback, in a private folder.

Its daemons (munged, slurmctld, slurmd) come from Debian, see `install`. They write
only into the cluster's folder. The system's own Slurm and munge are not touched.
"""

import contextlib
import os
import pwd
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self


_CPUS = 4
_SYSTEM = "/usr/sbin:/sbin"  # where Debian puts the daemons; not in a user's PATH
_NEEDED = ("tini", "munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue")

# Everything is fast, and nothing is recorded. The less obvious options:
# - config_overrides: the node has the CPUs written here, not the machine's, so that
#   several jobs run at once (they share the real cores);
# - cred_expire: a requeued job waits this long, plus one second, before it starts
#   again; Slurm's default of 120 s would be most of a test's time;
# - MinJobAge: how long squeue shows an ended job, because sacct does not exist here.
_CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
JobRequeue=1
ReturnToService=2
KillWait=2
MinJobAge=3600
SlurmctldTimeout=30
SlurmdTimeout=60
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,\
bf_interval=1,bf_resolution=1
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={cpus} \
RealMemory={memory}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class ClusterError(RuntimeError):
    """The cluster did not start, or a command sent to it failed."""


def available() -> tuple[bool, str]:
    """Whether the programs of Slurm and munge are here; if not, a sentence why."""
    missing = [name for name in _NEEDED if _which(name) is None]
    if not missing:
        return True, ""
    return False, f"Slurm is not installed ({', '.join(missing)}): tests/slurm/install"


class Cluster:
    """One controller and one node with 4 CPUs, running inside the `with` block.

    The block begins when the node is ready for jobs, within a second. Its end kills all
    jobs and daemons. `folder` must belong to the cluster only, and its path must be
    short (unix sockets).

    Raises `ClusterError` on entering if a daemon does not start, with the ends of the
    daemons' logs; and in any method if Slurm refuses the command.
    """

    def __init__(self, folder: Path | str):
        self.folder = Path(folder).resolve()
        if len(os.fsencode(self.folder / "munge.socket")) > 100:
            raise ValueError(f"too long a path for a unix socket: {self.folder}")
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        ok, why = available()
        if not ok:
            raise ClusterError(why)
        try:
            self._write()
            self._start_munge()
            self._start_controller()
            self._start("slurmd", "-D", "-N", "node")
            self._await_node()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def env(self) -> dict[str, str]:
        """The environment in which sbatch, submitit and others find this cluster."""
        # Drop the variables of an outer Slurm job, which would leak into ours.
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM", "SBATCH_", "SRUN_", "SQUEUE_", "SCANCEL_"))
        }
        ours["PATH"] = f"{ours.get('PATH', os.defpath)}:{_SYSTEM}"
        ours["SLURM_CONF"] = str(self._config)
        return ours

    def run(self, *command: str, stdin: str = "") -> str:
        """Returns the command's output; raises `ClusterError` with stderr if it fails.

        It runs in the cluster's folder, so that job outputs stay there.
        """
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.env,
            timeout=60,
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise ClusterError(f"{' '.join(command)} ({done.returncode}): {said}")
        return done.stdout

    def jobs(self) -> dict[str, str]:
        """The state of each job, ended or not: {"7": "RUNNING", "8_0": "PENDING"}."""
        lines = self.run("squeue", "-h", "-a", "-r", "-t", "all", "-o", "%i %T")
        return dict(line.split(maxsplit=1) for line in lines.splitlines())

    def pids(self, job_id: str, program: str = "python") -> list[int]:
        """The job's processes that run `program`; a job is "7", or "8_0" of an array.

        "python" includes python3.11; "bash" is the batch script.
        """
        job, _, task = job_id.partition("_")
        wanted = {f"SLURM_JOB_ID={job}"}
        if task:  # each task of an array also has its own job id
            wanted = {f"SLURM_ARRAY_JOB_ID={job}", f"SLURM_ARRAY_TASK_ID={task}"}
        return [
            pid
            for pid, variables in self._processes()
            if wanted <= variables and _program(pid).startswith(program)
        ]

    def wait(self, predicate: Callable[[], object], timeout: float = 30) -> None:
        """Returns once the predicate holds; else raises `TimeoutError` with the queue.

        It checks the predicate ten times a second.
        """
        end = time.monotonic() + timeout
        while not predicate():
            if time.monotonic() > end:
                queue = self.run("squeue", "-a", "-r", "-t", "all", "-o", "%i %T %r")
                raise TimeoutError(f"not within {timeout} s; the queue:\n{queue}")
            time.sleep(0.1)

    def hasten(self, job_id: str) -> None:
        """Starts a requeued job within 2 s; Slurm itself would wait 6 s.

        First waits until the job is pending, that is until its processes have ended.
        """
        # Wait: the node refuses credentials from the second of the requeue.
        self.wait(lambda: self.jobs().get(job_id) == "PENDING")
        self.run("scontrol", "update", f"JobId={job_id}", "StartTime=now+2")

    def drain(self) -> None:
        """Lets the node start no more jobs; running jobs go on."""
        self.run("scontrol", "update", "NodeName=node", "State=DRAIN", "Reason=test")

    def resume(self) -> None:
        """Undoes `drain`, or brings a node back that went down; else does nothing."""
        if re.search("DRAIN|DOWN", self._node("State")):
            self.run("scontrol", "update", "NodeName=node", "State=RESUME")

    @contextlib.contextmanager
    def without_controller(self) -> Iterator[None]:
        """Kills slurmctld, and starts it again from its saved state after the block.

        Meanwhile jobs go on, but commands fail. The controller saves changes up to 5 s
        late, and a kill loses unsaved changes. So this first waits until the queue and
        the node's state are saved.
        """
        now = time.time()
        states = [self.folder / "state" / name for name in ("job_state", "node_state")]
        end = time.monotonic() + 6
        while time.monotonic() < end and min(map(_modified, states)) <= now:
            time.sleep(0.05)
        daemon = self._daemons.pop("slurmctld")
        daemon.kill()
        daemon.wait()
        try:
            yield
        finally:
            self._start_controller()
            self._await_node()

    @property
    def _config(self) -> Path:
        return self.folder / "slurm.conf"

    def _write(self) -> None:
        """Writes what the daemons read, and makes the folders where they write."""
        for name in ("", "state", "spool"):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o755)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)  # munged refuses a key that others can read
        key.write_bytes(secrets.token_bytes(64))
        controller_port, node_port = _free_ports(2)
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._config.write_text(
            _CONFIG.format(
                folder=self.folder,
                host=socket.gethostname().split(".")[0],
                user=pwd.getpwuid(os.getuid()).pw_name,
                controller_port=controller_port,
                node_port=node_port,
                cpus=_CPUS,
                memory=pages // 2**20,
            )
        )

    def _start_munge(self) -> None:
        # --force: otherwise a folder under /tmp is not private enough for it.
        options = {
            "key-file": "munge.key",
            "socket": "munge.socket",
            "pid-file": "munged.pid",
            "seed-file": "munge.seed",
            "log-file": "munged.log",
        }
        paths = [f"--{name}={self.folder / file}" for name, file in options.items()]
        self._start("munged", "--foreground", "--force", "--num-threads=2", *paths)
        self._await("munged", (self.folder / "munge.socket").exists)

    def _start_controller(self) -> None:
        self._start("slurmctld", "-D")
        self._await("slurmctld", lambda: " is UP" in self._ask("scontrol", "ping"))

    def _await_node(self) -> None:
        """Waits until slurmd has reported; then the controller can use the node.

        Before that, a restarted controller shows the old state, but refuses changes.
        """
        seen = lambda: self._node("SlurmdStartTime") not in ("", "None")
        self._await("the node", seen)

    def _start(self, name: str, *arguments: str) -> None:
        program = _which(name)
        if program is None:
            raise ClusterError(available()[1])
        # Each stops with this process, even if this process has no time to stop them.
        # tini also reaps the jobs' orphans. Until they are gone, slurmd takes a job as
        # running, and a container's first process can be seconds late to reap them.
        keeper = ["setpriv", "--pdeathsig", "TERM"]
        if name == "slurmd":
            keeper = ["tini", "-s", "-p", "SIGTERM", "--"]
        with (self.folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                [*keeper, program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env=self.env,
                start_new_session=True,  # so Ctrl-C at the terminal does not reach them
            )

    def _await(self, what: str, ready: Callable[[], bool], timeout: float = 30) -> None:
        """Waits until ready; `ClusterError` if a daemon ends first or time is over."""
        end = time.monotonic() + timeout
        while not ready():
            ended = [name for name, d in self._daemons.items() if d.poll() is not None]
            if ended or time.monotonic() > end:
                why = f"{ended[0]} ended" if ended else f"not within {timeout} s"
                raise ClusterError(f"{what} did not start: {why}\n{self._logs()}")
            time.sleep(0.05)

    def _logs(self) -> str:
        """The last lines of each daemon's log, for error messages."""
        parts = []
        for name in self._daemons:
            for path in (self.folder / f"{name}.log", self.folder / f"{name}.out"):
                text = path.read_text(errors="replace") if path.exists() else ""
                if text:
                    parts += [f"--- {path.name}", *text.splitlines()[-10:]]
        return "\n".join(parts)

    def _ask(self, *command: str) -> str:
        """As `run`, but returns "" while there is no answer."""
        try:
            return self.run(*command)
        except (ClusterError, subprocess.TimeoutExpired):
            return ""

    def _node(self, name: str) -> str:
        """One value from `scontrol show node`, or "" without an answer."""
        for word in self._ask("scontrol", "--oneliner", "show", "node", "node").split():
            key, _, value = word.partition("=")
            if key == name:
                return value
        return ""

    def _processes(self) -> list[tuple[int, set[str]]]:
        """Each process of this cluster, with its environment as NAME=VALUE.

        Daemons and jobs all have the configuration's path in their environment.
        """
        mine, found = f"SLURM_CONF={self._config}", []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:  # it has ended, or belongs to another user
                continue
            variables = set(environment.decode(errors="replace").split("\0"))
            if mine in variables:
                found.append((int(entry.name), variables))
        return found

    def _stop(self) -> None:
        """Kills all daemons and jobs in any state; raises nothing.

        They need no clean shutdown. Jobs are not children of the daemons.
        """
        end = time.monotonic() + 10
        while (left := self._processes()) and time.monotonic() < end:
            for pid, _ in left:
                _kill(pid)
            time.sleep(0.02)
        for daemon in self._daemons.values():
            daemon.kill()
            daemon.wait()
        self._daemons.clear()


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM}")


def _program(pid: int) -> str:
    """The name of the file that the process runs, or "" if it has ended."""
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name
    except OSError:
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _modified(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


def _free_ports(count: int) -> list[int]:
    """Unused ports, below those that the kernel gives to clients.

    A client could take one of those while the controller is down.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(20_000, 32_000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ClusterError("no free ports between 20000 and 32000")
