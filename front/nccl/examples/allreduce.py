"""Sums tensors over all ranks by NCCL, checks every element, and prints the rate.

One process per rank, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment. All
ranks may share one GPU: each process then needs another NCCL_HOSTID (docs/nccl.md).
"""

import os
import time

import torch
import torch.distributed as dist


def check(count: int, rank: int, size: int) -> None:
    """Sums tensors of `count` elements, whose sum is known."""
    places = torch.arange(count, device="cuda", dtype=torch.float32) % 1024
    data = places + rank
    dist.all_reduce(data)
    expected = places * size + sum(range(size))
    torch.cuda.synchronize()
    assert torch.equal(data, expected), f"rank {rank}: a wrong sum of {count} elements"


def rate(count: int, rounds: int = 10) -> float:
    """Bytes per second of tensors of `count` elements, as this rank sees them."""
    data = torch.ones(count, device="cuda")
    dist.all_reduce(data)
    torch.cuda.synchronize()
    start = time.monotonic()
    for _ in range(rounds):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    return rounds * count * 4 / (time.monotonic() - start)


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # The process group, and with it the plug-in, is made and ended twice.
    for _ in range(2):
        dist.init_process_group("nccl")
        for count in (1, 1000, 1 << 16, (1 << 22) + 3, 1 << 24):
            check(count, rank, size)
        for count in (1 << 18, 1 << 22, 1 << 24):
            bytes_per_second = rate(count)
            if rank == 0:
                print(f"{count * 4:>10} bytes: {bytes_per_second / 1e9:.3f} GB/s")
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
