"""Contexts, registered memory, and operations on the memory of peers."""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import os
import weakref
from typing import Any, Generator, Optional, Union

from . import _inbox, _mapping
from ._errors import Invalid, PeerGone
from ._loops import Watcher
from ._places import Places

try:
    from . import _fairway
except ImportError as error:
    raise ImportError(
        f"the extension module of fairway cannot be loaded ({error}): install the wheel, or build "
        "it here (make wheel in the repository)") from error

from ._buffers import Pieces, bytes_of, fixed_bytes_of, plain_bytes, rows_of

# Before the interpreter ends, because a thread that called into it after that would end the process.
atexit.register(_fairway.stop_releases)

Key = _fairway.Key


class Segment(_fairway.View):
    """Registered memory: the local side of operations, and open to peers that have its key.

    A segment is a writable buffer of bytes without a copy: `numpy.frombuffer(segment, "f4")`,
    `memoryview(segment)`, `file.readinto(segment)`, `torch.from_dlpack(segment)`. A slice of a
    segment, `segment[0:4096]`, is a segment of these bytes; its registration is that of the whole.

    Peers may change the bytes at any time, as other threads may change any array.

    The registration ends with `close()`, at the end of a `with` block, or when nothing refers to
    the segment any more. Views of the memory stay valid after that.
    """

    _context: Context
    _registration: _fairway.Registration
    _owner: Any
    _address: int
    _local: _fairway.Local
    offset: int
    """Position of the first byte in the registered memory."""

    def __len__(self) -> int:
        return len(self._local)

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return len(self._local)

    @property
    def key(self) -> Key:
        """The key of the registered memory, which peers need: `str(key)` is text to send them. A
        slice has the key of the whole, in which it begins at `offset`."""
        return self._registration.key

    @property
    def closed(self) -> bool:
        """Whether the registration has ended."""
        return self._registration.closed

    def close(self) -> None:
        """Ends the registration: peers are refused from now on. Waits until no operation can touch
        the memory any more. Closing a slice ends the registration of the whole.

        Raises:
            Invalid: Memory of the segment is posted to a Jetty or a mailbox. Wait for what arrives
                in it, drop that object, or close the context first.
        """
        self._registration.close()

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return memoryview(self)[index]
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise Invalid(f"a slice of a segment can't have step {step}: use 1")
        return self._part(start, max(stop - start, 0))

    def _part(self, start: int, length: int) -> Segment:
        return _segment(self, self._owner, self._address + start, (self.offset + start, length))

    def __setitem__(self, index: Any, value: Any) -> None:
        view = memoryview(self)
        if isinstance(index, slice):
            view[index] = plain_bytes(value)
        else:
            view[index] = value

    def array(self, dtype: Any = "u1", shape: Any = None) -> Any:
        """Returns a numpy array over the bytes, without a copy."""
        import numpy
        flat = numpy.frombuffer(memoryview(self), dtype)
        return flat if shape is None else flat.reshape(shape)

    def __dlpack__(self, *, max_version: Optional[tuple[int, int]] = None, copy: Any = None,
                   **_: Any) -> Any:
        if copy:
            raise BufferError("a segment is never copied: import it without copy=True")
        versioned = max_version is not None and max_version[0] >= 1
        return _fairway.dlpack_capsule(self._address, len(self), self, versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"key={self.key}"
        return f"<fairway.Segment of {len(self)} bytes at {self.offset}, {state}>"


def _segment(like: "Union[Segment, _Whole]", owner: Any, address: int, place: "tuple[int, int]") -> Segment:
    """A segment of the context and registration of `like`."""
    offset, length = place
    segment = Segment.__new__(Segment, address, length, owner)
    segment._context, segment._registration = like._context, like._registration
    segment._owner, segment._address, segment.offset = owner, address, offset
    segment._local = _fairway.Local(like._registration, offset, length)
    return segment


@dataclasses.dataclass
class _Whole:
    """What a new segment is made of."""

    _context: Context
    _registration: _fairway.Registration


class Operation:
    """An operation under way. `await operation` and `operation.wait()` return its result: the
    previous value of a word for atomics, otherwise the number of bytes.

    An operation that nothing waits for is executed all the same.
    """

    def __init__(self, context: Context, native: _fairway.Operation) -> None:
        self._context, self._native = context, native

    def done(self) -> bool:
        """Whether the operation has ended, in success or failure."""
        return self._native.done()

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for at most `timeout` seconds (None: for ever) and returns the result.

        Raises:
            Timeout: It has not ended; it goes on.
            Error: It failed.
        """
        return self._native.wait(timeout)

    def __await__(self) -> Generator[Any, None, int]:
        if not self._native.done():
            yield from self._context._watcher().ended(self._native).__await__()
        return self._native.wait(0)


Remote = Union[_fairway.Key, str]

class Peer:
    """A connection to another context, on which operations are executed.

    `local` is a segment, a slice of one, or anything with memory inside of one, such as a slice of
    a numpy array over it. `remote` is a key that the peer has sent, as `Key` or as text, and `at` a
    number of bytes from its start. An operation moves as many bytes as `local` has.

    Every method waits until the operation has succeeded, for at most `timeout` seconds (default:
    the context's), without holding the interpreter. The methods that end in `_async` return an
    `Operation` at once, for `await` or for `wait()` later. Operations may overtake each other.
    """

    def __init__(self, context: Context, native: _fairway.Connection) -> None:
        self._context, self._native = context, native

    def write(self, local: Any, remote: Remote, at: int = 0, *,
              timeout: Optional[float] = None) -> int:
        """Copies `local` to the peer's memory, and returns the number of bytes."""
        return self._run(self._write(local, remote, at), timeout)

    def write_async(self, local: Any, remote: Remote, at: int = 0) -> Operation:
        """As `write`, started."""
        return self._start(self._write(local, remote, at))

    def read(self, local: Any, remote: Remote, at: int = 0, *,
             timeout: Optional[float] = None) -> int:
        """Fills `local` from the peer's memory, and returns the number of bytes."""
        return self._run(self._read(local, remote, at), timeout)

    def read_async(self, local: Any, remote: Remote, at: int = 0) -> Operation:
        """As `read`, started."""
        return self._start(self._read(local, remote, at))

    def read_many(self, local: Any, remote: Remote, pieces: Pieces, *,
                  timeout: Optional[float] = None) -> int:
        """Fills pieces of `local` from pieces of the peer's memory, in one call, and returns the
        number of bytes. `pieces` has three integers for each: the offset in `local`, the offset in
        the peer's memory, and the length, in bytes. It is a sequence of triples, or an array of
        64-bit integers with three columns.

        The pieces move in any order, except that a call's pieces are requested before those of a
        later call. No piece may overlap another one in `local`. If a piece fails, the call raises
        its error when nothing of the others is under way any more."""
        return self._wait(self.read_many_async(local, remote, pieces), timeout)

    def read_many_async(self, local: Any, remote: Remote, pieces: Pieces) -> Operation:
        """As `read_many`, started: one operation for all pieces, of which there may be any
        number."""
        return self._many("read", local, remote, pieces)

    def write_many(self, local: Any, remote: Remote, pieces: Pieces, *,
                   timeout: Optional[float] = None) -> int:
        """Copies pieces of `local` to pieces of the peer's memory, in one call, and returns the
        number of bytes. `pieces` is that of `read_many`."""
        return self._wait(self.write_many_async(local, remote, pieces), timeout)

    def write_many_async(self, local: Any, remote: Remote, pieces: Pieces) -> Operation:
        """As `write_many`, started."""
        return self._many("write", local, remote, pieces)

    def cas(self, remote: Remote, at: int, expected: int, new: int, *, width: int = 8,
            timeout: Optional[float] = None) -> int:
        """Sets a word of `width` bytes (4 or 8) to `new` if it equals `expected`, atomically.
        Returns the previous value: it was set if that equals `expected`."""
        request = self._atomic("compare_swap", remote, at, (expected, new), width)
        return self._run(request, timeout)

    def cas_async(self, remote: Remote, at: int, expected: int, new: int, *,
                  width: int = 8) -> Operation:
        """As `cas`, started."""
        return self._start(self._atomic("compare_swap", remote, at, (expected, new), width))

    def fetch_add(self, remote: Remote, at: int, value: int, *, width: int = 8,
                  timeout: Optional[float] = None) -> int:
        """Adds to a word atomically, and returns its previous value. The sum wraps."""
        return self._run(self._atomic("add", remote, at, (value, 0), width), timeout)

    def fetch_add_async(self, remote: Remote, at: int, value: int, *,
                        width: int = 8) -> Operation:
        """As `fetch_add`, started."""
        return self._start(self._atomic("add", remote, at, (value, 0), width))

    def swap(self, remote: Remote, at: int, value: int, *, width: int = 8,
             timeout: Optional[float] = None) -> int:
        """Sets a word atomically, and returns its previous value."""
        return self._run(self._atomic("swap", remote, at, (value, 0), width), timeout)

    def put(self, local: Any, mailbox: int, *, key: int = 0, offset: int = 0,
            epoch: Optional[int] = None, timeout: Optional[float] = None) -> int:
        """Copies `local` into the buffer that the peer has posted to its mailbox of this address,
        `offset` bytes from its start, and returns the number of bytes."""
        return self._run(self._put(local, mailbox, key, (offset, epoch)), timeout)

    def put_async(self, local: Any, mailbox: int, *, key: int = 0, offset: int = 0,
                  epoch: Optional[int] = None) -> Operation:
        """As `put`, started."""
        return self._start(self._put(local, mailbox, key, (offset, epoch)))

    def get(self, local: Any, mailbox: int, *, key: int = 0, offset: int = 0,
            epoch: Optional[int] = None, timeout: Optional[float] = None) -> int:
        """Fills `local` from the buffer of a mailbox, and returns the number of bytes."""
        local = self._context._local(local)
        request = _fairway.Request.get(local, mailbox, key, offset, epoch)
        return self._run(request, timeout)

    def send(self, local: Any, jetty: int, *, token: int = 0, immediate: Optional[int] = None,
             timeout: Optional[float] = None) -> int:
        """Copies `local` into the next buffer that the peer has posted to its Jetty of this number,
        and returns the number of bytes."""
        return self._run(self._send(local, jetty, token, immediate), timeout)

    def send_async(self, local: Any, jetty: int, *, token: int = 0,
                   immediate: Optional[int] = None) -> Operation:
        """As `send`, started."""
        return self._start(self._send(local, jetty, token, immediate))

    def memory(self, remote: Remote) -> RemoteMemory:
        """Returns the peer's segment as an object that is sliced and assigned to."""
        return RemoteMemory(self, _key(remote), 0, len(_key(remote)))

    @property
    def address(self) -> str:
        """The peer's address, `HOST:PORT`."""
        return self._native.address

    @property
    def alive(self) -> bool:
        """False once the connection is closed, by either side, or the peer is dead."""
        return self._native.alive

    def stats(self) -> "dict[str, Any]":
        """Statistics: `mtu` and `window_bytes` in bytes, `rtt_us` in microseconds, packets `sent`,
        `lost`, `marked` (by ECN) and `in_flight`, the number of `paths`, and whether packets of
        full size were found to be lost on the way (`long_packets_lost`)."""
        return self._native.stats()

    def close(self) -> None:
        """Closes the connection. Operations under way fail, and the peer is notified."""
        if self._native.alive:
            try:
                self._native.close()
            except PeerGone:
                pass

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<fairway.Peer at {self.address}{'' if self.alive else ', gone'}>"

    def _run(self, request: _fairway.Request, timeout: Optional[float]) -> int:
        limit = self._context.timeout if timeout is None else timeout
        return self._native.run(request, limit)

    def _start(self, request: _fairway.Request) -> Operation:
        return Operation(self._context, self._native.start(request))

    def _wait(self, operation: Operation, timeout: Optional[float]) -> int:
        return operation.wait(self._context.timeout if timeout is None else timeout)

    def _many(self, way: str, local: Any, remote: Remote, pieces: Pieces) -> Operation:
        rows = rows_of(pieces)
        native = self._native.start_many(way, self._context._local(local), _key(remote), rows)
        return Operation(self._context, native)

    def _write(self, local: Any, remote: Remote, at: int) -> _fairway.Request:
        return _fairway.Request.write(self._context._local(local), _place(remote, at))

    def _read(self, local: Any, remote: Remote, at: int) -> _fairway.Request:
        return _fairway.Request.read(self._context._local(local), _place(remote, at))

    def _put(self, local: Any, mailbox: int, key: int,
             place: "tuple[int, Optional[int]]") -> _fairway.Request:
        offset, epoch = place
        return _fairway.Request.put(self._context._local(local), mailbox, key, offset, epoch)

    def _send(self, local: Any, jetty: int, token: int,
              immediate: Optional[int]) -> _fairway.Request:
        return _fairway.Request.send(self._context._local(local), jetty, token, immediate)

    def _atomic(self, name: str, remote: Remote, at: int, operands: "tuple[int, int]",
                width: int) -> _fairway.Request:
        if width not in (4, 8):
            raise Invalid(f"a word can't have {width} bytes: use 4 or 8")
        bits = 8 * width
        # Negative numbers are words in two's complement.
        words = [value + (1 << bits) if value < 0 else value for value in operands]
        for value, word in zip(operands, words):
            if not 0 <= word < 1 << bits:
                raise Invalid(f"a word of {width} bytes can't hold {value}: use one of 8 bytes, or "
                              f"a value from {-(1 << bits - 1)} to {(1 << bits) - 1}")
        return _fairway.Request.atomic(_place(remote, at), width, name, (words[0], words[1]))


def _key(remote: Remote) -> Key:
    return remote if isinstance(remote, Key) else Key(str(remote))


def _place(remote: Remote, at: int) -> _fairway.Place:
    if not 0 <= at < 1 << 64:
        raise Invalid(f"at can't be {at}: give a number of bytes from the start of the segment")
    return _key(remote).at(at)


class RemoteMemory:
    """A peer's segment, or a slice of one: `there[0:4096] = local` writes, `there[0:4096].read(
    local)` reads. Each access waits for its result."""

    def __init__(self, peer: Peer, key: Key, offset: int, length: int) -> None:
        self.peer, self.key, self.offset, self._length = peer, key, offset, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: slice) -> RemoteMemory:
        if not isinstance(index, slice):
            raise Invalid(f"remote memory can't be indexed by {index!r}: use a slice")
        start, stop, step = index.indices(self._length)
        if step != 1:
            raise Invalid(f"a slice of remote memory can't have step {step}: use 1")
        return RemoteMemory(self.peer, self.key, self.offset + start, max(stop - start, 0))

    def __setitem__(self, index: slice, local: Any) -> None:
        self[index].write(local)

    def write(self, local: Any, *, timeout: Optional[float] = None) -> int:
        """Copies `local`, which has the same length, to the peer."""
        self._check(local)
        return self.peer.write(local, self.key, self.offset, timeout=timeout)

    def read(self, local: Any, *, timeout: Optional[float] = None) -> int:
        """Fills `local`, which has the same length, from the peer."""
        self._check(local)
        return self.peer.read(local, self.key, self.offset, timeout=timeout)

    def _check(self, local: Any) -> None:
        length = len(self.peer._context._local(local))
        if length != self._length:
            raise Invalid(f"{length} local bytes don't fit {self._length} remote bytes: slice one "
                          "of the two to the length of the other")


class Context:
    """A NIC in software: it owns sockets, registered memory and connections.

    Args:
        bind: The local address; None: all addresses of this host.
        port: UDP port of the first socket; 0: any. The other sockets have the next numbers.
        paths: Paths to each peer, 1 to 256; a connection has the smaller number of its two sides.
        policy: Congestion control, path choice, loss detection and scheduler, such as
            `"cc=swift,path=reps"`; None: the defaults.
        timeout: Seconds for which operations and `connect` wait unless they are given a timeout;
            None: without a limit.
        **settings: `sockets` and `engines` (1 to 16), `mtu` (payload bytes of a packet), `datapath`
            (`"auto"`, `"udp"`, `"shm"`, `"xdp"` or `"rdma"`), `stats` (True: `fairway top` shows
            the context), `emulate` and `seed` (a network with loss, as `"loss=1%,delay=50us"`).

    A context is a context manager, which closes it at the end.

    Raises:
        Invalid: A setting is out of range.
        SystemFailure: The address or a port cannot be bound.
    """

    _SETTINGS = ("sockets", "engines", "mtu", "datapath", "stats", "emulate", "seed")

    def __init__(self, bind: Optional[str] = None, port: int = 0, *, paths: int = 16,
                 policy: Optional[str] = None, timeout: Optional[float] = 5.0, **settings: Any) -> None:
        for name in settings:
            if name not in self._SETTINGS:
                raise TypeError(f"there is no setting {name!r}: use {', '.join(self._SETTINGS)}")
        if timeout is not None and not timeout >= 0:
            raise Invalid(f"timeout can't be {timeout}: use seconds, from 0 on")
        self.timeout = timeout
        self._native = _fairway.Nic({"bind": bind, "port": port, "paths": paths, "policy": policy,
                                     **settings})
        # For the memory of arrays.
        self._places = Places()
        self._watchers: "weakref.WeakKeyDictionary[Any, Watcher]" = weakref.WeakKeyDictionary()

    @property
    def addresses(self) -> "list[str]":
        """Local addresses of the sockets. Peers connect to any of them."""
        return self._native.addresses()

    @property
    def address(self) -> str:
        """Local address of the first socket, `HOST:PORT`. The host is that of `bind`."""
        return self._native.addresses()[0]

    @property
    def port(self) -> int:
        """UDP port of the first socket."""
        return int(self.address.rsplit(":", 1)[1])

    def register(self, memory: Any, rights: str = "rw", *, shared: bool = False) -> Segment:
        """Registers memory, without copying it.

        Args:
            memory: A number of bytes, which are allocated and zero; or an object with writable,
                contiguous memory: a numpy array, a bytearray, a tensor of PyTorch. The object is
                held until the segment is closed.
            rights: What peers with the key may do: letters of `r` (READ), `w` (WRITE) and `a`
                (atomics). An empty text keeps them out.
            shared: Whether programs of the same user on this host may map the memory, which then
                has to be a number of bytes. Their `read_many` copies it, and sends no packets.

        Raises:
            Invalid: The memory is read-only, not contiguous or empty, or the rights are unknown.
            LimitReached: There are too many segments.
        """
        if isinstance(memory, int):
            _mapping.check_length(memory)
            if shared:
                return self._register_shared(memory, rights)
            memory = _mapping.anonymous(memory)
        elif shared:
            raise Invalid("memory of an object can't be shared: give a number of bytes")
        address, length, owner = fixed_bytes_of(memory)
        registration = self._native.register((address, length), owner, rights)
        return self._whole(registration, owner, (address, length))

    def _register_shared(self, length: int, rights: str) -> Segment:
        registration, file = self._native.register_shared(length, rights)
        try:
            # The NIC has a mapping of its own, so views stay valid when it is gone.
            mapping = _mapping.of_file(file, length)
        finally:
            os.close(file)
        address, length, owner = bytes_of(mapping)
        return self._whole(registration, owner, (address, length))

    def _whole(self, registration: _fairway.Registration, owner: Any,
               place: "tuple[int, int]") -> Segment:
        address, length = place
        segment = _segment(_Whole(self, registration), owner, address, (0, length))
        self._places.add(segment)
        return segment

    def connect(self, server: str, timeout: Optional[float] = None, *,
                wait: bool = False) -> Peer:
        """Connects to the context at `"HOST:PORT"`.

        Args:
            server: The address of the other context.
            timeout: Seconds; None: the context's.
            wait: Whether to wait for a program that does not listen there yet.

        Raises:
            ConnectionRefused: No program listens there, or it refuses.
            Timeout: No answer.
            SystemFailure: The name of the host is unknown.
        """
        limit = self.timeout if timeout is None else timeout
        return Peer(self, self._native.connect(server, limit, wait))

    async def connect_async(self, server: str, timeout: Optional[float] = None, *,
                            wait: bool = False) -> Peer:
        """As `connect`, in a thread of the event loop's executor."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            None, lambda: self.connect(server, timeout, wait=wait))

    def peers(self) -> "list[Peer]":
        """The connections that are alive, whichever side has opened them."""
        return [Peer(self, native) for native in self._native.connections()]

    def mailbox(self, address: Optional[int] = 0, **settings: Any) -> _inbox.Mailbox:
        """Creates a mailbox, into which peers put; see `Mailbox` for the settings."""
        return _inbox.Mailbox(self, address, **settings)

    def jetty(self, number: Optional[int] = None, *, depth: int = 1024,
              token: int = 0) -> _inbox.Jetty:
        """Creates a Jetty, to whose number peers send messages; None: any free number."""
        return _inbox.Jetty(self, number, depth, token)

    def close(self, timeout: float = 1.0) -> None:
        """Closes all connections, waits up to `timeout` seconds for the peers to acknowledge that,
        and ends the background threads. Operations fail after this, waits raise `PeerGone`, and
        buffers that are posted belong to the program again."""
        try:
            self._native.close(timeout)
        except TimeoutError:
            # A peer that is gone acknowledges nothing; all is closed nonetheless.
            pass

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<fairway.Context at {self.address}>"

    def _watcher(self) -> Watcher:
        loop = asyncio.get_running_loop()
        watcher = self._watchers.get(loop)
        if watcher is None:
            watcher = self._watchers[loop] = Watcher(_fairway.Reactor())
        return watcher

    def _local(self, memory: Any) -> _fairway.Local:
        """The range of registered memory that `memory` is."""
        if isinstance(memory, Segment):
            return memory._local
        return self._as_segment(memory)._local

    def _as_segment(self, memory: Any) -> Segment:
        """The slice of a segment that `memory` is."""
        if isinstance(memory, Segment):
            return memory
        address, length, _ = bytes_of(memory)
        # A forked child must not wait for the lock, which a thread of its parent may have held.
        self._native.check()
        segment = self._places.find(address, length)
        if segment is not None:
            return segment
        raise Invalid(
            f"these {length} bytes are in no open segment of this context: register the object "
            "(context.register) and keep the segment, or use memory of a segment")
