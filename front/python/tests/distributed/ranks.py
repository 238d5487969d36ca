"""Runs functions at the ranks of a group, each in a process of its own."""

import multiprocessing
import os
import tempfile
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

# How long the ranks of a test may take, in seconds.
LIMIT = 240


def run(size, work, *arguments, backend="fairway", timeout=60, dead=()):
    """Calls `work(rank, size, *arguments)` at each rank, and returns the results by rank.

    `dead` are ranks that end without a result.
    """
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as directory:
        meeting = os.path.join(directory, "meeting")
        processes = [
            context.Process(target=_rank, daemon=True,
                            args=(rank, size, (work, arguments, backend, timeout), meeting, results))
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        outcomes = _collect(results, processes, size - len(dead))
        for process in processes:
            process.join(LIMIT)
            if process.is_alive():
                process.kill()
    for rank, (value, error) in sorted(outcomes.items()):
        if error is not None:
            raise AssertionError(f"rank {rank} of {size} failed:\n{error}")
    return [outcomes[rank][0] for rank in range(size) if rank in outcomes]


def _collect(results, processes, count):
    outcomes, deadline = {}, time.monotonic() + LIMIT
    while len(outcomes) < count:
        # A rank that was killed sends nothing.
        if not results._reader.poll(1):
            ended = all(not process.is_alive() for process in processes)
            if (ended and not results._reader.poll(0)) or time.monotonic() > deadline:
                raise AssertionError(f"only ranks {sorted(outcomes)} have answered")
            continue
        rank, value, error = results.get()
        outcomes[rank] = (value, error)
    return outcomes


def _rank(rank, size, task, meeting, results):
    work, arguments, backend, timeout = task
    torch.set_num_threads(1)
    try:
        dist.init_process_group(backend, init_method="file://" + meeting, rank=rank,
                                world_size=size, timeout=timedelta(seconds=timeout))
        value = work(rank, size, *arguments)
        results.put((rank, value, None))
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException:
        results.put((rank, None, traceback.format_exc()))


def error_of(call, *arguments, kind=Exception, **named):
    """The text of the exception of this kind that a call raises."""
    try:
        outcome = call(*arguments, **named)
        if outcome is not None:
            outcome.wait()
    except kind as error:
        return str(error)
    raise AssertionError(f"{call.__name__} raised nothing")


__all__ = ["LIMIT", "error_of", "run"]
