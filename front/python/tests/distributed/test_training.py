"""Training with torch.distributed: the losses are those with gloo."""

import os
import tempfile
import unittest

import torch
import torch.distributed as dist
from ranks import run
from torch.nn.parallel import DistributedDataParallel

import fairway.torch  # noqa: F401, torch before 2.14 loads no entry points.


def model():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64),
                               torch.nn.Tanh(), torch.nn.Linear(64, 4))


def batch(rank, step):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    source = torch.randn(32, 16, generator=generator, dtype=torch.float64)
    source = source.to(torch.get_default_dtype())
    return source, torch.stack([source[:, at::4].sin().sum(1) for at in range(4)], 1)


def steps(rank, trained, count):
    """Trains, and returns the mean loss of all ranks at each step, as it is printed."""
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(count):
        source, target = batch(rank, step)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(trained(source), target)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone().double()
        dist.all_reduce(mean)
        losses.append(f"{mean.item() / dist.get_world_size():.6f}")
    return losses


def data_parallel(rank, size, dtype):
    torch.set_default_dtype(dtype)
    return steps(rank, DistributedDataParallel(model(), bucket_cap_mb=0.01), 100)


def sharded(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    trained, mesh = model(), init_device_mesh("cpu", (size,))
    for layer in trained:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(trained, mesh=mesh)
    return steps(rank, trained, 20)


class Exchange(torch.autograd.Function):
    """Sends rows to the ranks of their experts; the gradients go back."""

    @staticmethod
    def forward(context, rows, sent, received):
        context.counts = (sent, received)
        got = rows.new_empty((sum(received), rows.size(1)))
        dist.all_to_all_single(got, rows.contiguous(), received, sent)
        return got

    @staticmethod
    def backward(context, gradient):
        sent, received = context.counts
        back = gradient.new_empty((sum(sent), gradient.size(1)))
        dist.all_to_all_single(back, gradient.contiguous(), sent, received)
        return back, None, None


def experts(rank, size):
    """A mixture of experts, one a rank, with as many tokens for each as the gate decides."""
    torch.manual_seed(11)
    gate = torch.nn.Linear(12, size)
    torch.manual_seed(100 + rank)
    expert, tokens = torch.nn.Linear(12, 12), torch.randn(50, 12, requires_grad=True)
    lines = []
    for _ in range(5):
        scores = gate(tokens).softmax(1)
        weight, chosen = scores.max(1)
        order = chosen.argsort(stable=True)
        sent = torch.bincount(chosen, minlength=size)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        sent, received = sent.tolist(), received.tolist()
        there = Exchange.apply(tokens[order], sent, received)
        back = Exchange.apply(expert(there).relu(), received, sent)
        loss = (back * weight[order].unsqueeze(1)).square().mean()
        loss.backward()
        with torch.no_grad():
            for value in (*expert.parameters(), tokens):
                value -= 0.5 * value.grad
                value.grad = None
        lines.append((f"{loss.item():.6f}", sent, received, tokens.detach().sum().item()))
    return lines


def checkpoint(rank, size, directory):
    """Saves what is sharded over the ranks, and loads it with other ranks' shards."""
    import torch.distributed.checkpoint as saving
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(600.0).reshape(60, 10)
    state = {"weights": distribute_tensor(whole, mesh, [Shard(0)]), "step": 7 + 0 * rank}
    saving.save(state, checkpoint_id=directory)
    fresh = {"weights": distribute_tensor(torch.zeros(60, 10), mesh, [Shard(1)]), "step": 0}
    saving.load(fresh, checkpoint_id=directory)
    assert torch.equal(fresh["weights"].full_tensor(), whole) and fresh["step"] == 7
    return len(os.listdir(directory))


class Training(unittest.TestCase):
    maxDiff = None

    def with_both(self, size, work, *arguments):
        got, expected = run(size, work, *arguments), run(size, work, *arguments, backend="gloo")
        self.assertEqual(got, expected)
        return got

    def test_data_parallel_losses_are_those_of_gloo(self):
        for size in (2, 3, 4):
            with self.subTest(ranks=size):
                losses = self.with_both(size, data_parallel, torch.float64)[0]
                self.assertEqual(len(losses), 100)
                self.assertLess(float(losses[-1]), float(losses[0]) / 2)
                # The order of sums is another one than that of gloo, which 32 bits show.
                short = run(size, data_parallel, torch.float32)
                gloo = run(size, data_parallel, torch.float32, backend="gloo")
                for got, expected in zip(short, gloo):
                    for one, other in zip(got, expected):
                        self.assertAlmostEqual(float(one), float(other), delta=5e-6)

    def test_fully_sharded(self):
        for size in (2, 3):
            with self.subTest(ranks=size):
                losses = self.with_both(size, sharded)[0]
                self.assertLess(float(losses[-1]), float(losses[0]))

    def test_mixture_of_experts(self):
        for size in (2, 3, 4):
            with self.subTest(ranks=size):
                lines = self.with_both(size, experts)[0]
                self.assertGreater(len(set(lines[0][1])), 1, "the splits are unequal")

    def test_checkpoint(self):
        with tempfile.TemporaryDirectory() as directory:
            self.assertGreater(min(run(3, checkpoint, directory)), 0)


if __name__ == "__main__":
    unittest.main()
