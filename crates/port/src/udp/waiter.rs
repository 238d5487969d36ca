//! Sleeps until something can be received, a doorbell rings, or the time is up.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::limits::EVENTS_PER_WAIT;
use crate::udp::sys::check;

/// Sleeps in the kernel on a set of sockets and a doorbell. May be used by any thread.
#[derive(Debug)]
pub struct Waiter {
    epoll: OwnedFd,
    bell: Doorbell,
    /// True if the kernel accepts timeouts in nanoseconds.
    fine: AtomicBool,
    /// The sockets that [`Waiter::pause`] leaves out.
    pausable: Mutex<Pausable>,
}

#[derive(Debug, Default)]
struct Pausable {
    sockets: Vec<(RawFd, u64)>,
    is_paused: bool,
}

/// A file that a [`Waiter`] watches for as long as this value exists.
///
/// The kernel watches an open file until its last descriptor is closed, and a child that was forked
/// has copies of all descriptors. So a file that is only closed would wake its waiter for as long
/// as the child lives.
#[derive(Debug)]
pub struct Watched<F: AsFd> {
    file: F,
    waiter: Arc<Waiter>,
    /// The process that watches. A child shares the kernel's list of watched files with it, and
    /// leaves that list alone.
    process: u32,
}

impl<F: AsFd> Deref for Watched<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.file
    }
}

impl<F: AsFd> Drop for Watched<F> {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // A file that is not watched needs nothing.
            let _ = self.waiter.unwatch(self.file.as_fd());
        }
    }
}

/// Wakes a [`Waiter`] from any thread. Clones ring the same bell.
#[derive(Clone, Debug)]
pub struct Doorbell {
    event: Arc<OwnedFd>,
}

/// The reason why a wait ended. Neither socket nor bell: the time was up, or a signal arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// Number of sockets that are readable.
    pub sockets: usize,
    /// True if the doorbell rang since the last wait.
    pub rung: bool,
}

/// The doorbell's number among the watched indices.
const BELL: u64 = u64::MAX;

impl Waiter {
    /// Creates a waiter that watches only its doorbell.
    ///
    /// # Errors
    /// The kernel refuses another descriptor.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed; a result that is not -1 is a descriptor we now own.
        let epoll = unsafe {
            let fd = check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            OwnedFd::from_raw_fd(fd)
        };
        let bell = Doorbell::new()?;
        let waiter = {
            let (fine, pausable) = (AtomicBool::new(true), Mutex::default());
            Waiter { epoll, bell, fine, pausable }
        };
        waiter.add(waiter.bell.event.as_raw_fd(), BELL)?;
        Ok(waiter)
    }

    /// Watches `socket` too, and reports it as `index`, until the socket and all its copies are
    /// closed. A child that was forked has copies: use [`Waiter::watch_while_open`] for a socket
    /// that is closed before the waiter.
    ///
    /// # Errors
    /// The descriptor is watched already, or can't be.
    pub fn watch(&self, socket: BorrowedFd<'_>, index: usize) -> io::Result<()> {
        self.add(socket.as_raw_fd(), index as u64)
    }

    /// Ends [`Waiter::watch`].
    ///
    /// # Errors
    /// The descriptor is not watched.
    pub fn unwatch(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, file.as_raw_fd(), 0)
    }

    /// Watches `file` as [`Waiter::watch`] does, until the result is dropped.
    ///
    /// # Errors
    /// As [`Waiter::watch`].
    pub fn watch_while_open<F: AsFd>(
        self: &Arc<Self>,
        file: F,
        index: usize,
    ) -> io::Result<Watched<F>> {
        self.watch(file.as_fd(), index)?;
        let (waiter, process) = (Arc::clone(self), std::process::id());
        Ok(Watched { file, waiter, process })
    }

    /// As [`Waiter::watch`], for a socket that [`Waiter::pause`] leaves out. The socket must stay
    /// open until the waiter is used for the last time.
    ///
    /// # Errors
    /// As [`Waiter::watch`].
    pub(crate) fn watch_pausable(&self, socket: BorrowedFd<'_>, index: usize) -> io::Result<()> {
        self.watch(socket, index)?;
        self.pausable().sockets.push((socket.as_raw_fd(), index as u64));
        Ok(())
    }

    /// Stops watching the port's sockets, because no thread will wait for some time: each waiter
    /// that watches a socket costs the kernel time for every packet that arrives there.
    pub fn pause(&self) {
        let mut pausable = self.pausable();
        if !std::mem::replace(&mut pausable.is_paused, true) {
            for (socket, _) in &pausable.sockets {
                // A socket that is not watched needs nothing.
                let _ = self.control(libc::EPOLL_CTL_DEL, *socket, 0);
            }
        }
    }

    /// Watches the port's sockets again. What has arrived meanwhile ends the next wait at once.
    ///
    /// # Errors
    /// The kernel has no memory left: the sockets that follow are not watched. The next call tries
    /// again.
    pub fn resume(&self) -> io::Result<()> {
        let mut pausable = self.pausable();
        if pausable.is_paused {
            for (socket, index) in &pausable.sockets {
                match self.add(*socket, *index) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    Ok(()) | Err(_) => {}
                }
            }
            pausable.is_paused = false;
        }
        Ok(())
    }

    fn pausable(&self) -> std::sync::MutexGuard<'_, Pausable> {
        self.pausable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a doorbell that wakes this waiter.
    pub fn doorbell(&self) -> Doorbell {
        self.bell.clone()
    }

    /// Sleeps until a socket is readable, the bell rings, or `timeout` is over (`None`: no limit).
    /// `ready` is cleared and receives the indices of such sockets, at most 64 at a time; a socket
    /// that is left unread is reported again.
    ///
    /// # Errors
    /// Whatever epoll reports, except that an interrupting signal is no error.
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<usize>) -> io::Result<Woken> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_PER_WAIT];
        let count = match self.wait_raw(&mut events, timeout) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        let mut woken = Woken::default();
        for event in &events[..count] {
            let index = event.u64;
            if index == BELL {
                woken.rung = true;
                self.bell.reset();
            } else {
                ready.push(index as usize);
            }
        }
        woken.sockets = ready.len();
        Ok(woken)
    }

    /// Finds out which sockets are readable now, without sleeping.
    ///
    /// # Errors
    /// As [`Waiter::wait`].
    pub fn ready_now(&self, ready: &mut Vec<usize>) -> io::Result<Woken> {
        self.wait(Some(Duration::ZERO), ready)
    }

    fn add(&self, fd: RawFd, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, key)
    }

    fn control(&self, operation: libc::c_int, fd: RawFd, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: key };
        // SAFETY: `event` outlives the call, which copies it.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) })?;
        Ok(())
    }

    fn wait_raw(
        &self,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
    ) -> io::Result<usize> {
        let sleeps = timeout.is_some_and(|span| !span.is_zero());
        if sleeps && self.fine.load(Ordering::Relaxed) {
            let result = self.wait_fine(events, timeout.unwrap_or_default());
            match result {
                // Some containers refuse calls that they do not know by EPERM.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.fine.store(false, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        let milliseconds = match timeout {
            None => -1,
            // The timeout is rounded up, because waking too early would make the caller spin.
            Some(span) => libc::c_int::try_from(span.as_nanos().div_ceil(1_000_000))
                .unwrap_or(libc::c_int::MAX),
        };
        // SAFETY: the kernel writes at most `events.len()` events to `events`.
        let count = check(unsafe {
            let room = events.len() as libc::c_int;
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), room, milliseconds)
        })?;
        Ok(count as usize)
    }

    fn wait_fine(&self, events: &mut [libc::epoll_event], span: Duration) -> io::Result<usize> {
        // SAFETY: timespec is plain integers; some targets have padding fields to be zeroed.
        let mut limit: libc::timespec = unsafe { std::mem::zeroed() };
        limit.tv_sec = libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX);
        limit.tv_nsec = span.subsec_nanos() as _;
        // SAFETY: the kernel writes at most `events.len()` events to `events` and reads `limit`;
        // a null signal mask changes nothing.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as libc::c_int,
                &limit as *const libc::timespec,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }
}

impl AsFd for Waiter {
    /// A descriptor that is readable while a wait would return at once.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Doorbell {
    /// Creates a doorbell that belongs to no waiter yet.
    ///
    /// # Errors
    /// The kernel refuses another descriptor.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed; a result that is not -1 is a descriptor we now own.
        let event = unsafe {
            let fd = check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Doorbell { event: Arc::new(event) })
    }

    /// Wraps an event descriptor that another process has passed, so that ringing does not block.
    /// `None` if it is another file: a write to a pipe or a socket may wait for the other process,
    /// or end this one by a signal.
    pub fn passed(event: OwnedFd) -> Option<Self> {
        // SAFETY: all of it may be zeros.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `status` outlives the call, which writes to it.
        check(unsafe { libc::fstat(event.as_raw_fd(), &raw mut status) }).ok()?;
        // Only files without a name anywhere, which the kernel makes for its own objects, have no
        // kind. Of these, an event descriptor is the only one that stores eight bytes.
        if status.st_mode & libc::S_IFMT != 0 {
            return None;
        }
        // SAFETY: no memory is passed.
        let flags = unsafe { libc::fcntl(event.as_raw_fd(), libc::F_GETFL) };
        let flags = check(flags).ok()? | libc::O_NONBLOCK;
        // SAFETY: likewise.
        check(unsafe { libc::fcntl(event.as_raw_fd(), libc::F_SETFL, flags) }).ok()?;
        Some(Doorbell { event: Arc::new(event) })
    }

    /// The event descriptor. It is readable while the bell is rung.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Ends the current wait, or the next one if no thread waits.
    pub fn ring(&self) {
        let one: u64 = 1;
        // SAFETY: eight bytes of `one` are read. The write can only fail when the bell's counter is
        // full, and then it is rung.
        unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Silences the bell.
    pub fn reset(&self) {
        let mut rings: u64 = 0;
        // SAFETY: eight bytes are written to `rings`. The read can only fail when another thread
        // that waits on the same bell was faster.
        unsafe { libc::read(self.event.as_raw_fd(), (&raw mut rings).cast(), size_of::<u64>()) };
    }
}
