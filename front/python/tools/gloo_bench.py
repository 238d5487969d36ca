"""Times collectives of `torch.distributed` between processes: one JSON row for operation and size.

    python gloo_bench.py --backend gloo --ranks 4 --operation all-reduce,broadcast --bytes 8,65536

A row has the median and the least time of a call, in microseconds, at the slowest rank of each
iteration. Every iteration begins with a barrier, and every size is verified once. `--bytes` is what
nccl-tests counts: the whole buffer of a rank (for all-gather the output, for reduce-scatter the
input). The operation `training-step` is one step of a model with so many bytes of parameters, by
`DistributedDataParallel`. `--interfaces eth0,eth1` gives each rank one of these, in turn. `--rank R --meeting FILE`
starts one rank only; all of them must reach the file.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast",
              "training-step")
# Inputs and outputs of each layer of the trained model.
WIDTH = 256


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo", choices=("gloo", "fairway"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--operation", default="all-reduce", type=operations,
                        help="operations, separated by commas: " + ", ".join(OPERATIONS))
    parser.add_argument("--bytes", default="8,4096,65536,1048576", help="sizes, separated by commas")
    parser.add_argument("--iters", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--interfaces", default="", help="network interfaces, one a rank, in turn")
    parser.add_argument("--rank", type=int, help="start this rank only")
    parser.add_argument("--meeting", default="", help="the file by which such ranks meet")
    options = parser.parse_args()
    if options.rank is not None:
        if not options.meeting:
            parser.error("--rank needs --meeting FILE, the same for all ranks")
        return rank_main(options.rank, options, options.meeting)
    with tempfile.TemporaryDirectory() as directory:
        meeting = os.path.join(directory, "meeting")
        mp.spawn(rank_main, args=(options, meeting), nprocs=options.ranks)


def rank_main(rank, options, meeting):
    torch.set_num_threads(1)
    interfaces = [name for name in options.interfaces.split(",") if name]
    if interfaces:
        name = interfaces[rank % len(interfaces)]
        os.environ["GLOO_SOCKET_IFNAME"] = name
        if options.backend == "fairway":
            os.environ["FAIRWAY_BIND"] = address_of(name)
    if options.backend == "fairway":
        import fairway.torch  # noqa: F401, for versions of torch that load no entry points
    dist.init_process_group(options.backend, init_method="file://" + meeting, rank=rank,
                            world_size=options.ranks)
    for operation in options.operation:
        for size in map(int, options.bytes.split(",")):
            row = run(operation, size, rank, options)
            if rank == 0:
                print(json.dumps(row), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def operations(text):
    """The names of operations in a text."""
    names = text.split(",")
    for name in names:
        if name not in OPERATIONS:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(OPERATIONS)}")
    return names


def run(operation, size, rank, options):
    """Verifies and times an operation with buffers of `size` bytes."""
    elements = max(size // 4 // options.ranks, 1) * options.ranks
    if operation == "training-step":
        elements = max(size // 4 // WIDTH ** 2, 1) * WIDTH ** 2
    if operation in ("all-reduce", "broadcast"):
        elements = max(size // 4, 1)
    call, verify = prepare(operation, elements, rank, options.ranks)
    call()
    verify()
    times = measure(call, options)
    return {"backend": options.backend, "operation": operation, "ranks": options.ranks,
            "bytes": elements * 4, "iters": options.iters,
            "median_us": round(statistics.median(times) / 1e3, 1),
            "min_us": round(min(times) / 1e3, 1)}


def address_of(interface):
    """The first IPv4 address of a network interface."""
    import fcntl
    import socket
    import struct
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x8915, request)[20:24])


def prepare(operation, elements, rank, ranks):
    """A call without arguments, and a check of its result; the check is for the first call."""
    if operation == "training-step":
        return training(elements // WIDTH ** 2, rank)
    part = elements // ranks
    mine = torch.arange(elements, dtype=torch.float32) % 251 + rank
    sum_of_ranks = ranks * (ranks - 1) // 2
    pattern = torch.arange(elements, dtype=torch.float32) % 251

    def expect(got, wanted):
        if not torch.equal(got, wanted):
            raise AssertionError(f"rank {rank}: {operation} of {elements} elements is wrong")

    if operation == "all-reduce":
        return lambda: dist.all_reduce(mine), lambda: expect(mine, pattern * ranks + sum_of_ranks)
    if operation == "broadcast":
        return lambda: dist.broadcast(mine, 0), lambda: expect(mine, pattern)
    if operation == "all-gather":
        out, own = torch.empty(elements), mine[:part].clone()
        wanted = torch.cat([pattern[:part] + peer for peer in range(ranks)])
        return lambda: dist.all_gather_into_tensor(out, own), lambda: expect(out, wanted)
    if operation == "reduce-scatter":
        out = torch.empty(part)
        wanted = pattern[rank * part:(rank + 1) * part] * ranks + sum_of_ranks
        return lambda: dist.reduce_scatter_tensor(out, mine), lambda: expect(out, wanted)
    out = torch.empty(elements)
    block = pattern[rank * part:(rank + 1) * part]
    wanted = torch.cat([block + peer for peer in range(ranks)])
    return lambda: dist.all_to_all_single(out, mine), lambda: expect(out, wanted)


def training(layers, rank):
    """A step of a model of so many layers, and a check that all ranks have the same parameters."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False)
                                  for _ in range(layers)))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(2 + rank)
    data = torch.randn(32, WIDTH)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    def verify():
        for parameter in model.parameters():
            of_first = parameter.detach().clone()
            dist.broadcast(of_first, 0)
            if not torch.equal(of_first, parameter):
                raise AssertionError(f"rank {rank}: the parameters differ from those of rank 0")
    return step, verify


def measure(call, options):
    """Nanoseconds of each iteration, of the rank that took longest."""
    times = []
    for iteration in range(options.warmup + options.iters):
        dist.barrier()
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    slowest = torch.tensor(times[options.warmup:], dtype=torch.int64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.tolist()


if __name__ == "__main__":
    sys.exit(main())
