#!/usr/bin/env python3
"""Moves the KV cache of a request from a process that prefills to one that decodes.

The cache has the shape of a model with 70 billion parameters: 80 layers, 8 heads of keys and of
values, 128 numbers of 16 bits each, in pages (blocks) of 16 tokens, so that a page has 64 KiB. The
pages of a request are scattered in both processes. The decoding process READs them into its own
pages, with one call and one wait for a layer, while the other process does nothing. The same
request is moved through TCP and ZeroMQ, by turns, and every byte is compared."""

import argparse
import json
import os
import random
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

import numpy

EXAMPLES = """examples:
  kv_cache.py                                  both processes on this host, all peers by turns
  kv_cache.py --tokens 4096 --block 64         a longer request, pages of 256 KiB
  kv_cache.py --peer fairway,tcp --rounds 9 --json
  kv_cache.py --serve --bind 192.0.2.7         the prefill, on one host, and the decode on another:
  kv_cache.py --from 192.0.2.7:41234 --bind 192.0.2.8
"""
TIMEOUT = 60.0
NUMBER_BYTES = 2
# Buffers of one call of sendmsg and recvmsg_into.
VECTOR = os.sysconf("SC_IOV_MAX")


class Missing(Exception):
    """Why a peer can't be used."""


class Cache:
    """Pages of all layers in one array: `[layer][block]`, each with keys and values."""

    def __init__(self, options, allocate=bytearray):
        self.layers, self.page = options.layers, page_bytes(options)
        self.needed = -(-options.tokens // options.block)
        self.blocks = max(self.needed, int(self.needed * options.pool))
        shape = (self.layers, self.blocks, self.page // 8)
        memory = allocate(8 * shape[0] * shape[1] * shape[2])
        self.array = numpy.frombuffer(memory, "u8").reshape(shape)
        view = memoryview(self.array).cast("B")
        self.view = [view[at * self.page:(at + 1) * self.page]
                     for at in range(self.layers * self.blocks)]
        self.pattern = numpy.random.default_rng(70).integers(0, 1 << 63, self.page // 8, "u8")

    def fill(self):
        for layer in range(self.layers):
            for block in range(self.blocks):
                self.array[layer, block] = self.pattern ^ mark(layer, block)

    def pages(self, layer, blocks):
        return [self.view[layer * self.blocks + block] for block in blocks]

    def offsets(self, blocks):
        """Offset of each page of a request: one row for a layer."""
        layers = numpy.arange(self.layers)[:, None] * self.blocks
        return (layers + numpy.asarray(blocks)) * self.page

    def scatter(self, seed):
        """The blocks of a request, in the order of its tokens."""
        return random.Random(seed).sample(range(self.blocks), self.needed)

    def empty(self):
        self.array[:] = 0

    def compare(self, here, there):
        """Compares every byte: pages of the request with those of the prefill, others with 0."""
        untouched = sorted(set(range(self.blocks)) - set(here))
        for layer in range(self.layers):
            for own, other in zip(here, there):
                expected = self.pattern ^ mark(layer, other)
                if not numpy.array_equal(self.array[layer, own], expected):
                    sys.exit(f"layer {layer}: block {own} differs from the prefill's {other}")
            if self.array[layer, untouched].any():
                sys.exit(f"layer {layer}: a page that is not of the request was changed")


def page_bytes(options):
    """Keys and values of the tokens of a block, of one layer."""
    return 2 * options.block * options.heads * options.head_dim * NUMBER_BYTES


def mark(layer, block):
    """A number that differs from page to page."""
    return numpy.uint64(((layer << 32 | block) + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)


# Each peer has two sides. `offer` runs in the process that prefills; it returns what the other side
# needs. The other side is made from that; `fetch` yields once for each layer, when its pages are
# in place.


class Fairway:
    """One-sided READs, over UDP between hosts. On one host the memory of the prefill, which allows
    that, is mapped here and copied."""

    datapath = "auto"
    held = None

    @classmethod
    def allocate(cls, size, bind):
        """Memory that other programs of this user may map."""
        context = cls.context(bind)
        cls.held = (context, context.register(size, rights="r", shared=True))
        return cls.held[1]

    @classmethod
    def offer(cls, cache, bind):
        if cls.held is None:
            context = cls.context(bind)
            cls.held = (context, context.register(cache.array, rights="r"))
        context, pages = cls.held
        return {"address": context.address, "key": str(pages.key)}

    @classmethod
    def context(cls, bind):
        try:
            import fairway
        except ImportError as error:
            raise Missing(f"the package fairway is not installed ({error})") from None
        return fairway.Context(bind, datapath=cls.datapath, timeout=TIMEOUT)

    def __init__(self, offer, cache, bind):
        self.cache, self.context = cache, self.context(bind)
        self.peer = self.context.connect(offer["address"])
        self.key, self.pages = offer["key"], self.context.register(cache.array)

    def fetch(self, here, there):
        rows = numpy.empty((self.cache.layers, len(here), 3), "u8")
        rows[..., 0], rows[..., 1] = self.cache.offsets(here), self.cache.offsets(there)
        rows[..., 2] = self.cache.page
        reads = [self.peer.read_many_async(self.pages, self.key, layer) for layer in rows]
        for read in reads:
            yield read.wait(TIMEOUT)

    def close(self):
        self.context.close()


class FairwayUdp(Fairway):
    """The same over UDP, also on one host."""

    datapath = "udp"
    held = None


class Tcp:
    """A stream of pages: gathered by `sendmsg` from where they are, scattered by `recvmsg_into`
    to where they belong."""

    @staticmethod
    def offer(cache, bind):
        listener = socket.create_server((bind, 0))
        serve_in_thread(Tcp.accept, cache, listener)
        return {"port": listener.getsockname()[1]}

    @staticmethod
    def accept(cache, listener):
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("r", encoding="utf-8") as lines:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for line in lines:
                    blocks = json.loads(line)
                    for layer in range(cache.layers):
                        move(connection.sendmsg, cache.pages(layer, blocks))

    def __init__(self, offer, cache, bind):
        self.cache = cache
        self.socket = socket.create_connection((offer["host"], offer["port"]), TIMEOUT,
                                               source_address=(bind, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A time limit that leaves the socket blocking: one call fills many pages.
        self.socket.settimeout(None)
        limit = struct.pack("ll", int(TIMEOUT), 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def fetch(self, here, there):
        self.socket.sendall(json.dumps(there).encode() + b"\n")
        for layer in range(self.cache.layers):
            move(self.receive, self.cache.pages(layer, here))
            yield

    def receive(self, pages):
        return self.socket.recvmsg_into(pages, 0, socket.MSG_WAITALL)[0]

    def close(self):
        self.socket.close()


def move(call, pages):
    """Sends or receives all bytes of the pages by `call`, which returns how many it has moved."""
    while pages:
        moved = call(pages[:VECTOR])
        if moved == 0:
            sys.exit("the connection has ended within a request")
        whole = 0
        while whole < len(pages) and moved >= len(pages[whole]):
            moved -= len(pages[whole])
            whole += 1
        pages = pages[whole:]
        if moved:
            pages[0] = pages[0][moved:]


class Zmq:
    """A message for each layer, with a frame for each page. Frames are sent without a copy, and
    received with one: ZeroMQ chooses the memory."""

    @staticmethod
    def zmq():
        try:
            import zmq
        except ImportError:
            raise Missing("pyzmq is not installed") from None
        return zmq

    @classmethod
    def offer(cls, cache, bind):
        zmq = cls.zmq()
        peer = zmq.Context.instance().socket(zmq.PAIR)
        port = peer.bind_to_random_port(f"tcp://{bind}")
        serve_in_thread(cls.answer, cache, peer)
        return {"port": port}

    @staticmethod
    def answer(cache, peer):
        while True:
            blocks = peer.recv_json()
            for layer in range(cache.layers):
                peer.send_multipart(cache.pages(layer, blocks), copy=False, copy_threshold=0)

    def __init__(self, offer, cache, _bind):
        self.cache, self.module = cache, self.zmq()
        self.socket = self.module.Context.instance().socket(self.module.PAIR)
        self.socket.setsockopt(self.module.RCVTIMEO, int(1000 * TIMEOUT))
        self.socket.setsockopt(self.module.LINGER, 0)
        self.socket.connect(f"tcp://{offer['host']}:{offer['port']}")

    def fetch(self, here, there):
        self.socket.send_json(there)
        for layer in range(self.cache.layers):
            for page in self.cache.pages(layer, here):
                self.receive(page)
            yield

    def receive(self, page):
        if hasattr(self.socket, "recv_into"):
            self.socket.recv_into(page)
        else:
            page[:] = self.socket.recv(copy=False).buffer

    def close(self):
        self.socket.close()


PEERS = {"fairway": Fairway, "fairway-udp": FairwayUdp, "tcp": Tcp, "zmq": Zmq}


def serve_in_thread(function, *arguments):
    threading.Thread(target=function, args=arguments, daemon=True).start()


def serve(options):
    """The process that prefills: offers its pages, and reports its CPU time."""
    offers, missing = {}, {}
    try:
        # All peers serve from the same memory, which Fairway provides if it is there.
        cache = Cache(options, lambda size: Fairway.allocate(size, options.bind))
    except Missing:
        cache = Cache(options)
    cache.fill()
    for name in options.peer:
        try:
            offers[name] = PEERS[name].offer(cache, options.bind)
        except Missing as why:
            missing[name] = str(why)
    shape = {name: getattr(options, name) for name in SHAPE}
    listener = socket.create_server((options.bind, options.port))
    if options.once:
        listener.settimeout(TIMEOUT)
    print("serves at %s:%d" % listener.getsockname()[:2], flush=True)
    while True:
        connection, _ = listener.accept()
        connection.settimeout(None)
        with connection, connection.makefile("rw", encoding="utf-8") as lines:
            say(lines, {"shape": shape, "offers": offers, "missing": missing})
            for line in lines:
                say(lines, {"blocks": cache.scatter(json.loads(line)["request"]),
                            "cpu_s": time.process_time()})
        if options.once:
            break


def say(lines, what):
    lines.write(json.dumps(what) + "\n")
    lines.flush()


class Prefill:
    """The decoding process's connection to the one that prefills."""

    def __init__(self, where, bind):
        host, _, port = where.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT, (bind, 0))
        self.lines = self.socket.makefile("rw", encoding="utf-8")
        hello = json.loads(self.lines.readline())
        self.shape, self.missing = hello["shape"], hello["missing"]
        self.offers = {name: {"host": host, **offer} for name, offer in hello["offers"].items()}

    def ask(self, request):
        """Blocks of a request, and the CPU time of that process so far."""
        say(self.lines, {"request": request})
        answer = json.loads(self.lines.readline())
        return answer["blocks"], answer["cpu_s"]

    def close(self):
        self.lines.close()
        self.socket.close()


def decode(options, where):
    """The process that decodes: moves a request by each peer, by turns. Returns the figures."""
    prefill = Prefill(where, options.bind)
    for name, value in prefill.shape.items():
        setattr(options, name, value)
    cache = Cache(options)
    missing, peers = dict(prefill.missing), {}
    for name in options.peer:
        try:
            if name in prefill.offers:
                peers[name] = PEERS[name](prefill.offers[name], cache, options.bind)
            else:
                missing.setdefault(name, "the prefill does not offer it")
        except Missing as why:
            missing[name] = str(why)
    samples = {name: [] for name in peers}
    # The first round is not counted: connections find their rate, and memory is touched.
    for number in range(options.rounds + 1):
        for name, peer in peers.items():
            sample = transfer(prefill, peer, cache, (number, options.verify))
            if number > 0:
                samples[name].append(sample)
    for peer in peers.values():
        peer.close()
    prefill.close()
    pieces = cache.layers * cache.needed
    return {"shape": prefill.shape, "pieces": pieces, "piece_bytes": cache.page,
            "bytes": pieces * cache.page, "rounds": options.rounds, "compared": options.verify,
            "missing": missing, "peers": samples}


def transfer(prefill, peer, cache, plan):
    """Moves one request, compares it, and returns its times in seconds."""
    number, verify = plan
    here = cache.scatter(-1 - number)
    cache.empty()
    there, before = prefill.ask(number)
    own, started, at = time.process_time(), time.perf_counter(), []
    for _ in peer.fetch(here, there):
        # This layer can be used now.
        at.append(time.perf_counter() - started)
    own = time.process_time() - own
    _, after = prefill.ask(number)
    if verify:
        cache.compare(here, there)
    return {"first_layer_s": at[0], "request_s": at[-1], "prefill_cpu_s": after - before,
            "decode_cpu_s": own}


def table(result):
    """The figures as text: medians, with the smallest and the largest."""
    shape, size = result["shape"], result["bytes"]
    compared = "every byte compared" if result["compared"] else "bytes not compared"
    yield (f"{shape['tokens']} tokens: {result['pieces']} pieces of "
           f"{result['piece_bytes'] // 1024} KiB, {size / 1e6:.0f} MB; medians of "
           f"{result['rounds']} rounds by turns; {compared}")
    heads = ["peer", "GB/s", "ms for the request", "ms to layer 1", "CPU s/GB: prefill", "decode",
             "ratio"]
    rows, rates = [heads], {}
    for name, samples in result["peers"].items():
        rates[name] = statistics.median(size / 1e9 / sample["request_s"] for sample in samples)
    base = rates.get("tcp") or next(iter(rates.values()), 1)
    for name, samples in result["peers"].items():
        gigabytes = size / 1e9
        rows.append([name, spread(samples, lambda one: gigabytes / one["request_s"], 2),
                     spread(samples, lambda one: 1e3 * one["request_s"], 0),
                     spread(samples, lambda one: 1e3 * one["first_layer_s"], 1),
                     spread(samples, lambda one: one["prefill_cpu_s"] / gigabytes, 2),
                     spread(samples, lambda one: one["decode_cpu_s"] / gigabytes, 2),
                     f"{rates[name] / base:.2f}"])
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
    for name, why in result["missing"].items():
        yield f"not run: {name}: {why}"


def spread(samples, figure, digits):
    values = sorted(map(figure, samples))
    low, middle, high = values[0], statistics.median(values), values[-1]
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


SHAPE = ("layers", "heads", "head_dim", "block", "tokens", "pool")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default="all", metavar="NAMES",
                        help=f"what moves the pages, separated by commas: {', '.join(PEERS)}; all")
    parser.add_argument("--tokens", type=int, default=1024, help="of the request (1024: 336 MB)")
    parser.add_argument("--rounds", type=int, default=5, help="beside one that is not counted (5)")
    parser.add_argument("--json", action="store_true", help="print every figure of every round")
    parser.add_argument("--no-verify", dest="verify", action="store_false",
                        help="do not compare the bytes")
    hosts = parser.add_argument_group("two hosts")
    hosts.add_argument("--serve", action="store_true", help="run the prefill only")
    hosts.add_argument("--from", dest="where", metavar="HOST:PORT", help="run the decode only")
    hosts.add_argument("--bind", default="127.0.0.1", metavar="HOST",
                       help="address of this process (127.0.0.1)")
    hosts.add_argument("--port", type=int, default=0, help="TCP port of --serve (0: any)")
    hosts.add_argument("--once", action="store_true", help="--serve ends after one decode")
    shape = parser.add_argument_group("shape of the cache; --from takes that of the prefill")
    for name, default in (("layers", 80), ("heads", 8), ("head-dim", 128), ("block", 16)):
        shape.add_argument(f"--{name}", type=int, default=default, help=f"({default})")
    shape.add_argument("--pool", type=float, default=1.5, help="pages there are, for one of the "
                       "request (1.5)")
    options = parser.parse_args()
    if options.peer == "all":
        # Between hosts, "fairway" is UDP, too.
        skipped = "fairway-udp" if options.where else None
        options.peer = ",".join(name for name in PEERS if name != skipped)
    options.peer = options.peer.split(",")
    unknown = [name for name in options.peer if name not in PEERS]
    if unknown:
        parser.error(f"there is no peer {unknown[0]!r}: use {', '.join(PEERS)} or all")
    if min(options.tokens, options.rounds, *(getattr(options, name) for name in SHAPE)) <= 0:
        parser.error("sizes and rounds have to be above 0")
    if page_bytes(options) % 8:
        parser.error(f"a page has {page_bytes(options)} bytes: choose a multiple of 8")
    return options


def main():
    options = arguments()
    if options.serve:
        serve(options)
        return
    if options.where:
        result = decode(options, options.where)
    else:
        command = [sys.executable, __file__, "--serve", "--once", "--peer", ",".join(options.peer)]
        for name in SHAPE:
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            line = process.stdout.readline()
            if not line.startswith("serves at "):
                sys.exit("the process that prefills has not started")
            result = decode(options, line.split()[-1])
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        print(*table(result), sep="\n")


if __name__ == "__main__":
    main()
