#!/usr/bin/env python3
"""NIXL, of the unmodified wheel: one process READs scattered pages of another one's memory.

    pip install nixl numpy
    fairway run --device lo -- python3 nixl_read.py
    fairway run --device lo --provider fairway -- python3 nixl_read.py

Both processes run on this host. The first one starts the second one, which owns the pages."""

import os
import subprocess
import sys
import time

# UCX has ways of its own within a host, and TCP. Only verbs are allowed.
os.environ.setdefault("UCX_TLS", "rc_v,ud_v")

import numpy
from nixl import nixl_agent, nixl_agent_config

PAGE, PAGES, ROUNDS = 64 << 10, 1024, 5


def content():
    return numpy.random.default_rng(70).integers(0, 256, (PAGES, PAGE), "u1")


def agent_of(name, pages):
    """An agent, and descriptors of its pages. Without a device UCX has no transport, and fails."""
    agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
    agent.register_memory([(pages.ctypes.data, pages.nbytes, 0, "")], "DRAM")
    rows = [(page.ctypes.data, PAGE, 0) for page in pages]
    return agent, agent.get_xfer_descs(rows, "DRAM")


def own():
    pages = content()
    agent, descriptors = agent_of("owner", pages)
    print("pages", agent.get_agent_metadata().hex(),
          agent.get_serialized_descs(descriptors).hex(), flush=True)
    sys.stdin.read()


def read():
    command = [sys.executable, __file__, "own"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as owner:
        line = next((line for line in owner.stdout if line.startswith("pages ")), None)
        if line is None:
            sys.exit("the owner of the pages has not started")
        metadata, serialized = map(bytes.fromhex, line.split()[1:])
        pages, expected = numpy.zeros((PAGES, PAGE), "u1"), content()
        agent, local = agent_of("reader", pages)
        peer = agent.add_remote_agent(metadata)
        remote = agent.deserialize_descs(serialized)
        for number in range(ROUNDS):
            pages[:] = 0
            started = time.perf_counter()
            transfer(agent, local, remote, peer)
            rate = pages.nbytes / 1e9 / (time.perf_counter() - started)
            if not numpy.array_equal(pages, expected):
                sys.exit(f"round {number}: the bytes differ")
            print(f"READ compared {pages.nbytes} bytes, {rate:.2f} GB/s", flush=True)
        owner.stdin.close()


def transfer(agent, local, remote, peer):
    handle = agent.initialize_xfer("READ", local, remote, peer)
    state = agent.transfer(handle)
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    if state != "DONE":
        sys.exit(f"READ ended in state {state}")
    agent.release_xfer_handle(handle)


own() if sys.argv[1:] == ["own"] else read()
