"""Exceptions of remote memory. Their text names the value, what is allowed, and what to do."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """An operation or a call failed; the base of all exceptions of remote memory."""

    status: Optional[str] = None
    """The status of an operation that was executed and failed, such as `RemoteAccess`."""


class Timeout(Error, TimeoutError):
    """Nothing happened within the time limit.

    A call that started an operation and waited for it has called it off, but puts and gets go on;
    an operation that was started before goes on.
    """


class ConnectionRefused(Error, ConnectionRefusedError):
    """No program listens at the address, or it refuses connections."""


class PeerGone(Error, ConnectionError):
    """The connection was closed, by either side, or the peer is dead."""


class SystemFailure(Error, OSError):
    """The operating system refused a request, such as to bind an address or to resolve a name."""


class Invalid(Error, ValueError):
    """An argument is outside of its range, or an object is of another context."""


class LimitReached(Error):
    """A capacity is exhausted: wait for operations, or release objects."""


class OperationFailed(Error):
    """An operation was executed and failed at the peer, as `status` says."""


class RemoteAccess(OperationFailed, PermissionError):
    """The peer refuses the access: a wrong key, missing rights, or a range outside of its memory."""
