#!/usr/bin/env python3
"""Mooncake's transfer engine, of the unmodified wheel: one process READs scattered pages of
another one's memory.

    pip install mooncake-transfer-engine-non-cuda numpy
    fairway run --device lo -- python3 mooncake_read.py
    fairway run --device lo --provider fairway -- python3 mooncake_read.py

Both processes run on this host. The first one starts the second one, which owns the pages."""

import argparse
import json
import random
import subprocess
import sys
import time

import numpy
from mooncake.engine import TransferEngine

PAGE, PAGES, ROUNDS = 64 << 10, 1024, 5


def content():
    return numpy.random.default_rng(70).integers(0, 256, (PAGES, PAGE), "u1")


def engine_of(pages, options):
    engine = TransferEngine()
    if engine.initialize(options.host, "P2PHANDSHAKE", options.protocol, options.device) != 0:
        sys.exit("the engine has not started")
    # Without a device the engine takes TCP, and does not say so.
    topology = json.loads(engine.get_local_topology())
    devices = [name for near_and_far in topology.values() for names in near_and_far
               for name in names]
    if options.protocol == "rdma" and not devices:
        sys.exit("there is no RDMA device: start this program by `fairway run`")
    if engine.register_memory(pages.ctypes.data, pages.nbytes) != 0:
        sys.exit("the memory was not registered")
    return engine


def own(options):
    pages = content()
    engine = engine_of(pages, options)
    print("pages", f"{options.host}:{engine.get_rpc_port()}", pages.ctypes.data, flush=True)
    sys.stdin.read()


def read(options):
    command = [sys.executable, *sys.argv, "--own"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as owner:
        line = next((line for line in owner.stdout if line.startswith("pages ")), None)
        if line is None:
            sys.exit("the owner of the pages has not started")
        peer, start = line.split()[1], int(line.split()[2])
        pages, expected = numpy.zeros((PAGES, PAGE), "u1"), content()
        engine = engine_of(pages, options)
        for number in range(ROUNDS):
            pages[:] = 0
            order = random.Random(number).sample(range(PAGES), PAGES)
            here = [pages.ctypes.data + at * PAGE for at in range(PAGES)]
            there = [start + at * PAGE for at in order]
            started = time.perf_counter()
            if engine.batch_transfer_sync_read(peer, here, there, [PAGE] * PAGES) != 0:
                sys.exit(f"round {number}: the READ failed")
            rate = pages.nbytes / 1e9 / (time.perf_counter() - started)
            if not numpy.array_equal(pages, expected[order]):
                sys.exit(f"round {number}: the bytes differ")
            print(f"READ compared {pages.nbytes} bytes, {rate:.2f} GB/s", flush=True)
        owner.stdin.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="address of the device (127.0.0.1)")
    parser.add_argument("--device", default="", help="such as fairway0; empty: the engine's choice")
    parser.add_argument("--protocol", default="rdma", help="rdma, or tcp: the engine's own TCP")
    parser.add_argument("--own", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    own(options) if options.own else read(options)


main()
