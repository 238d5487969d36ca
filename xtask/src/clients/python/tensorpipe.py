# TensorPipe by way of torch's remote procedure calls, with verbs as the only transport. Every number
# of the answers is compared.
import sys

import torch
import torch.distributed.rpc as rpc


def add(left, right):
    return left + right


def main(rank, port):
    options = rpc.TensorPipeRpcBackendOptions(
        init_method=f"tcp://127.0.0.1:{port}",
        _transports=["ibv"],
        _channels=["basic"],
        num_worker_threads=4,
    )
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        for count in (1, 1000, 1 << 20, 1 << 22):
            left, right = torch.rand(count), torch.rand(count)
            if not torch.equal(rpc.rpc_sync("worker0", add, (left, right)), left + right):
                sys.exit("data mismatch")
        left = torch.rand(5000)
        calls = [rpc.rpc_async("worker0", add, (left, left * number)) for number in range(200)]
        for number, call in enumerate(calls):
            if not torch.equal(call.wait(), left + left * number):
                sys.exit("data mismatch")
        print("compared 204 answers")
    rpc.shutdown()


main(int(sys.argv[1]), int(sys.argv[2]))
