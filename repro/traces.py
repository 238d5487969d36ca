"""Traces for `fairway sim trace`: collective operations on hosts drawn at random, a step of
data-parallel training, and layers of a mixture of experts. Every function returns the text of a
trace; the same arguments return the same text.

`python3 repro/traces.py ddp --ranks 16 > ddp.trace` prints one; `--help` shows what else there is.
"""

import argparse
import random

MIB = 1 << 20
# Parameters, bytes of a gradient, and milliseconds of a step on one GPU, of which the forward pass
# takes a third: ResNet-50, 32 images on an A100 (about 800 images a second); GPT-2 of 124 million
# parameters with gradients of 16 bits.
MODELS = {
    "resnet50": (25_557_032, 4, 40.0),
    "gpt2": (124_439_808, 2, 60.0),
}


def shuffled(ranks, seed):
    """All hosts in an order drawn from the seed, as a trace names them."""
    order = list(range(ranks))
    random.Random(seed).shuffle(order)
    return ",".join(map(str, order))


def collective(operation, ranks, size, algorithm="", seed=1):
    """One operation, whose ranks are on hosts drawn at random."""
    return f"ranks {ranks}\n{operation} {shuffled(ranks, seed)} {size} {algorithm}\n"


def buckets(model, bucket=25 * MIB, first=MIB):
    """Lengths of the buckets of PyTorch's DistributedDataParallel in the order in which they become
    ready: a first one of 1 MiB, and 25 MiB each. Parameters are not cut, so lengths differ; here
    all buckets but the last are full."""
    parameters, width, _ = MODELS[model]
    left, lengths = parameters * width, [first]
    left -= first
    while left > 0:
        lengths.append(min(bucket, left))
        left -= bucket
    return lengths


def ddp(model="resnet50", ranks=16, seed=1, step_ms=None):
    """A step: forward, backward by buckets, and each bucket's all-reduce beside the computing of
    the ones that follow, one all-reduce after the other. The last line ends the step. `step_ms` is
    the time that a step computes."""
    step_ms = step_ms or MODELS[model][2]
    lengths = buckets(model)
    whole, forward, backward = sum(lengths), step_ms / 3, step_ms * 2 / 3
    lines = [f"ranks {ranks}", f"group job {shuffled(ranks, seed)}",
             f"back0: compute job {time_of(forward + backward * lengths[0] / whole)}"]
    for at, length in enumerate(lengths):
        if at:
            lines.append(f"back{at}: compute job {time_of(backward * length / whole)} "
                         f"after=back{at - 1}")
        before = f",sum{at - 1}" if at else ""
        lines.append(f"sum{at}: all-reduce job {length} ring after=back{at}{before}")
    last = len(lengths) - 1
    lines.append(f"step: compute job 100us after=back{last},sum{last}")
    return "\n".join(lines) + "\n"


def time_of(milliseconds):
    return f"{max(1, round(milliseconds * 1e6))}ns"


def popular(experts, skew, draw):
    """Weights of the experts: of `skew` thousandths of the choices Zipf's law, else equal."""
    order = list(range(experts))
    draw.shuffle(order)
    total = sum(1 / rank for rank in range(1, experts + 1))
    weights = [0.0] * experts
    for rank, expert in enumerate(order, 1):
        weights[expert] = (1 - skew / 1000) / experts + skew / 1000 / rank / total
    return weights


def moe(ranks=32, tokens=128, token=7168, layers=4, experts=256, top=8, skew=300, seed=1,
        attention_us=100.0, token_us=0.1):
    """Layers of a mixture of experts with expert parallelism over all ranks, as DeepSeek-V3 is
    served: attention; each token of `token` bytes to the ranks of its `top` experts, once to a
    rank; the experts of a rank, for as long as it has tokens (`token_us` each); and results of
    twice the size back. Ranks are on hosts drawn at random, and which experts are popular changes
    with the layer."""
    draw = random.Random(seed)
    host = list(range(ranks))
    draw.shuffle(host)
    lines = [f"ranks {ranks}"]
    ends = {rank: [] for rank in range(ranks)}
    for layer in range(layers):
        counts = dispatched(ranks, tokens, experts, top, popular(experts, skew, draw), draw)
        for rank in range(ranks):
            after = ",".join(ends[rank]) or "-"
            lines.append(f"attention{layer}.{rank}: compute {host[rank]} "
                         f"{time_of(attention_us / 1000)} after={after}")
        pairs = [(rank, (rank + step) % ranks) for step in range(1, ranks) for rank in range(ranks)]
        pairs = [(a, b) for a, b in pairs if counts[a][b]]
        for a, b in pairs:
            lines.append(f"out{layer}.{a}.{b}: send {host[a]}->{host[b]} {counts[a][b] * token} "
                         f"after=attention{layer}.{a}")
        for b in range(ranks):
            came = [f"out{layer}.{a}.{b}" for a in range(ranks) if a != b and counts[a][b]]
            load = sum(counts[a][b] for a in range(ranks))
            after = ",".join([*came, f"attention{layer}.{b}"])
            lines.append(f"experts{layer}.{b}: compute {host[b]} "
                         f"{time_of(load * token_us / 1000)} after={after}")
        ends = {rank: [f"experts{layer}.{rank}"] for rank in range(ranks)}
        for a, b in pairs:
            name = f"back{layer}.{b}.{a}"
            lines.append(f"{name}: send {host[b]}->{host[a]} {2 * counts[a][b] * token} "
                         f"after=experts{layer}.{b}")
            ends[a].append(name)
    return "\n".join(lines) + "\n"


def dispatched(ranks, tokens, experts, top, weights, draw):
    """Tokens that each rank sends to each rank."""
    counts = [[0] * ranks for _ in range(ranks)]
    for rank in range(ranks):
        for _ in range(tokens):
            chosen = set()
            while len(chosen) < top:
                chosen.update(draw.choices(range(experts), weights, k=top - len(chosen)))
            for to in {expert % ranks for expert in chosen}:
                counts[rank][to] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    step = kinds.add_parser("ddp", help="a step of data-parallel training")
    step.add_argument("--model", choices=list(MODELS), default="resnet50")
    layer = kinds.add_parser("moe", help="layers of a mixture of experts")
    for name, default in (("tokens", 128), ("token", 7168), ("layers", 4), ("experts", 256),
                          ("top", 8), ("skew", 300)):
        layer.add_argument(f"--{name}", type=int, default=default)
    for kind, ranks in ((step, 16), (layer, 32)):
        kind.add_argument("--ranks", type=int, default=ranks)
        kind.add_argument("--seed", type=int, default=1)
    given = vars(parser.parse_args())
    print({"ddp": ddp, "moe": moe}[given.pop("kind")](**given), end="")


if __name__ == "__main__":
    main()
