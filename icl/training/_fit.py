"""Training: steps inside the compiled program, several members in one program."""

import contextlib
import time
import warnings
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ..protocols import Summary
from ..runs import Log, RunWriter
from ..summaries import scalars, summarise
from ._member import Member as Member, Result as Result
from ._members import Members
from ._sharing import devices_of
from ._signals import stop_signals, Stopped as Stopped
from ._steps import (
    BUFFER,
    evaluator,
    initial_state,
    State,
    stepper,
    warn_of_idle_edits,
)
from .loggers import Logger
from .schedules import Training


def prepare(members: Sequence[Member], training: Training) -> Members:
    """Members as one program on this machine's devices, for `fit`.

    **Raises:** `ValueError` if there are none, for something else than members, or if
    they differ in more than numbers.
    """
    if not members:
        raise ValueError("fit needs at least one member")
    for member in members:
        if not isinstance(member, Member):
            wanted = "members must be of icl.Member, which Experiment.build makes"
            way = "icl.run_experiment trains an experiment"
            got = type(member).__name__
            raise ValueError(f"{wanted}, got {got}; {way}")
    return Members(members, devices_of(members, training))


def fit(
    members: Member | Sequence[Member] | Members,
    training: Training,
    *,
    runs: RunWriter | Sequence[RunWriter] = (),
    loggers: Sequence[Logger] = (),
    resume_interval: float = 5.0,
    label: str = "training",
) -> list[Result]:
    """Trains one model, or many members as one program.

    Members are spread evenly over the local devices. If there are fewer members than
    devices, several devices share each batch of a member, where this is faster. A
    member's result does not depend on the other members, nor on the number of devices,
    up to rounding. Any schedule uses one compiled program.

    **Arguments:**

    - `members`: What to train, or the result of `prepare`.
    - `training`: How long to train, and when to evaluate and save.
    - `runs`: A run folder for each member, from `icl.runs.open_run`. A run in it is
        continued from its resume point, to the same bits.
    - `loggers`: One for each member; see `icl.training.loggers`.
    - `resume_interval`: The least number of seconds between two resume points. It grows
        if writing one takes more than a tenth of it; 0 writes after each event. They
        are written after evaluations and checkpoints, when a signal (Ctrl-C, SIGTERM,
        SIGUSR1 or SIGUSR2) asks to stop, and at the end.
    - `label`: The title of the progress bar.

    **Returns:**

    The results, in the members' order.

    **Raises:** `ValueError` for wrong arguments, if members differ in more than
    numbers, or if the disk is full; `FloatingPointError` if every member has had a loss
    or a gradient that is not finite; `Stopped` after a signal. After a full disk, a
    `FloatingPointError` or a signal, the run folders can be resumed.
    """
    if not isinstance(members, Members):
        several = members if isinstance(members, Sequence) else [members]
        members = prepare(several, training)
    runs = [runs] if isinstance(runs, RunWriter) else list(runs)
    for name, given in (("runs", runs), ("loggers", loggers)):
        if given and len(given) != members.count:
            wanted = f"{members.count} members need as many {name}"
            raise ValueError(f"{wanted}, got {len(given)}")
    if len({run.path.resolve() for run in runs}) < len(runs):
        raise ValueError("each member needs its own run folder, got one folder twice")
    return _Fit(members, training, runs, loggers, resume_interval).run(label)


# Long enough to hide the cost of a dispatch, short enough to see progress.
_DISPATCH_SECONDS = 0.5


class _Fit:
    """The loop around the compiled program: events, logs, resume points."""

    def __init__(
        self,
        members: Members,
        training: Training,
        runs: list[RunWriter],
        loggers: Sequence[Logger],
        resume_interval: float,
    ):
        self.members = members
        self.training = training
        self.runs = runs
        self.loggers = loggers
        self.resume_interval = resume_interval
        self.step = 0
        self.logs = [Log() for _ in members.members]
        fresh = [initial_state(m, training.batch_size) for m in members.members]
        self.state: State = members.stack(self._resumed(fresh))
        shared = members.sharing
        for run in runs if self.step else ():
            if run.devices != shared:
                warnings.warn(
                    f"{run.path} was begun with devices={run.devices} for each batch, "
                    f"now it is {shared}: the result is the same only up to rounding",
                    stacklevel=4,
                )
        self.compiled_steps = members.map(stepper(training, shared))
        self.compiled_evaluate = members.map(evaluator(shared))
        self.saved_at = time.monotonic()
        self.saving = 0.0
        self.dispatch = 16
        self.warm = False
        # A resumed member may have diverged before.
        self.diverged: dict[int, str] = {
            k: message
            for k, log in enumerate(self.logs)
            if (message := _not_finite(log.train, 0))
        }

    def _resumed(self, fresh: list[State]) -> list[State]:
        """The states to start from: fresh, or the latest that all runs have."""
        if not self.runs:
            return fresh
        points = [run.resume_points for run in self.runs]
        common = set.intersection(*map(set, points))
        batch = self.training.batch_size
        sequences = max(common, default=None)
        if sequences is None and any(max(p, default=0) for p in points):
            # All runs save a point at 0 before the first step, so a kill cannot cause
            # this. Do not delete runs that were trained separately.
            at = [f"{run.path} at {run.resume_points or 'none'}" for run in self.runs]
            raise ValueError(
                f"the runs have no resume point in common: {', '.join(at)}"
            )
        for run in self.runs:
            if sequences is None and run.checkpoints:
                raise ValueError(
                    f"{run.path} has checkpoints but no resume point to continue from; "
                    "train into another folder, or delete this one"
                )
        states = fresh
        if sequences is not None:
            self.step = sequences // batch
            self.logs = [_log_of(run, self.step, sequences) for run in self.runs]
            states = [
                run.load_state(sequences, state)
                for run, state in zip(self.runs, fresh, strict=True)
            ]
        # Only now, after all of them could be read.
        for run in self.runs:
            run.drop_after(-1 if sequences is None else sequences)
        return states

    @property
    def sequences(self) -> int:
        return self.step * self.training.batch_size

    def run(self, label: str) -> list[Result]:
        training, count = self.training, len(self.logs)
        look = training.steps_of(training.evaluate_at)
        keep = training.steps_of(training.checkpoint_at)
        stops = sorted(look | keep | {training.num_steps})
        bar = tqdm(
            total=training.num_steps * count,
            initial=self.step * count,
            desc=label,
            unit="step",
            disable=None,  # Quiet if the output is not a terminal.
        )
        with bar, contextlib.ExitStack() as stack, stop_signals() as asked:
            for logger in self.loggers:
                stack.callback(logger.close)
            if self.step == 0:
                for member in self.members.members:
                    warn_of_idle_edits(member, training)
                self._save()
            for stop in stops:
                while self.step < stop and not asked:
                    self._advance(stop, bar)
                if self.step == stop:
                    self._event(stop in look, stop in keep)
                if asked:
                    self._save()
                    raise Stopped(asked[0], self.sequences)
            self._save()
        weights = self.members.unstack(self.state.model)
        columns = zip(self.members.members, weights, self.logs, strict=True)
        return [
            Result(
                # All arrays are those of the state.
                eqx.combine(jax.tree.map(jnp.asarray, trained), member.model),
                log,
                self.diverged.get(k),
            )
            for k, (member, trained, log) in enumerate(columns)
        ]

    def _advance(self, stop: int, bar: tqdm) -> None:
        count = min(stop - self.step, self.dispatch, BUFFER)
        start = time.perf_counter()
        state, rows = self.compiled_steps(self.state, jnp.asarray(count, jnp.int32))
        rows = [jax.device_get(row) for row in self.members.unstack(rows)]
        if self.warm:
            rate = count / (time.perf_counter() - start)
            self.dispatch = max(1, int(rate * _DISPATCH_SECONDS))
        self.warm = True
        rows = [{name: x[:count] for name, x in row.items()} for row in rows]
        self._check_finite(rows)
        for log, row in zip(self.logs, rows, strict=True):
            log.add_steps(row)
        self.state, self.step = state, self.step + count
        bar.update(count * len(rows))
        losses = [row["loss"][count - 1] for row in rows]
        for logger, row in zip(self.loggers, rows, strict=False):
            means = {f"train/{name}": float(x.mean()) for name, x in row.items()}
            logger.log(self.sequences, means)
        bar.set_postfix(loss=f"{np.nanmean(losses):.4f}", refresh=False)

    def _check_finite(self, rows: list[dict[str, np.ndarray]]) -> None:
        """Warns of members that are no longer finite; raises when none is left."""
        new = {
            k: message
            for k, row in enumerate(rows)
            if k not in self.diverged and (message := _not_finite(row, self.step))
        }
        self.diverged.update(new)
        if len(self.diverged) == len(rows):
            every = (f"member {k}: {text}" for k, text in self.diverged.items())
            raise FloatingPointError(f"{'; '.join(every)}; no other member is left")
        for k, message in new.items():
            warnings.warn(f"member {k}: {message}; the others continue", stacklevel=2)

    def _event(self, look: bool, keep: bool) -> None:
        # After a resume, the logs of some or all members may have this event already.
        lacking = [self.sequences not in log.events for log in self.logs]
        if look and any(lacking):
            metrics = self.members.unstack(self.compiled_evaluate(self.state))
            metrics = [jax.device_get(sets) for sets in metrics]
            for log, sets, lacks in zip(self.logs, metrics, lacking, strict=True):
                if lacks:
                    log.add_evaluation(self.sequences, sets)
            own = zip(self.loggers, metrics, self.members.members, strict=False)
            for logger, sets, member in own:
                logger.log(self.sequences, _numbers(sets, member.summaries))
        if keep and self.runs:
            models = self.members.unstack(self.state.model)
            for run, model in zip(self.runs, models, strict=True):
                run.save_checkpoint(self.sequences, model)
        # A large log takes long to write: spend at most a tenth of the time on it. An
        # interval of 0 means after every event.
        interval = self.resume_interval and max(self.resume_interval, 10 * self.saving)
        if time.monotonic() - self.saved_at >= interval:
            self._save()

    def _save(self) -> None:
        if not self.runs:
            return
        start = time.monotonic()
        batch = self.training.batch_size
        states = self.members.unstack(self.state)
        for run, state, log in zip(self.runs, states, self.logs, strict=True):
            run.save_resume_point(self.sequences, state, log, batch)
        self.saved_at = time.monotonic()
        self.saving = self.saved_at - start


def _not_finite(rows: Mapping[str, np.ndarray], step: int) -> str | None:
    """Where some steps, the first being `step`, first have a non-finite number."""
    for name, what in (("loss", "loss"), ("grad_norm", "gradient's norm")):
        finite = np.isfinite(rows.get(name, np.zeros(0)))
        if not finite.all():
            bad = int(np.argmin(finite))
            return f"the {what} is {rows[name][bad]} at step {step + bad}"
    return None


def _log_of(run: RunWriter, step: int, sequences: int) -> Log:
    """The run's log as it was at a resume point."""
    log = run.log.truncated(step, sequences)
    rows = min((len(x) for x in log.train.values()), default=0)
    if rows < step:
        raise ValueError(
            f"{run.path / 'log.h5'} ends at step {rows}, before the resume point at "
            f"step {step}: rows are lost, and the run cannot continue"
        )
    return log


def _numbers(
    sets: Mapping[str, Mapping[str, np.ndarray]],
    summaries: Mapping[str, Summary | None],
) -> dict[str, float]:
    """The numbers of an evaluation, by the names that loggers show."""
    return {
        f"eval/{name}/{metric}": float(value)
        for name, rows in sets.items()
        for metric, value in scalars(summarise(rows, summaries)).items()
    }
