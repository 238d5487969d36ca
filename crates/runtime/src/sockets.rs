//! The sockets of a device: which of them to try next, and the calls that receive.

use std::io;

use fairway_port::{Arrival, Datapath, ReceiveBuffer, Waiter};
use fairway_wire::Instant;

/// As long as a socket foretells where packets arrive next, a packet at the same socket counts this
/// much, ...
const HOT_GAIN: u32 = 1;
/// ... up to this much, and a packet at another socket takes this much away.
const HOT_MAX: u32 = 16;
const HOT_LOSS: u32 = 4;

/// Indices of a waiter from here on are no sockets, but whatever else a protocol receives from.
pub const OTHERS: usize = 1 << 16;

/// The sockets, and what is needed to receive from them without allocating.
pub struct Sockets {
    /// How packets are received and sent.
    pub datapath: Box<dyn Datapath>,
    /// Lent to the arrival at hand; otherwise there.
    buffer: Option<ReceiveBuffer>,
    /// How many there are.
    count: usize,
    /// Watches all of them, to ask which have something without waiting. Without it every socket is
    /// tried: slower, and as good.
    look: Option<Waiter>,
    /// It watches more than sockets.
    watches_others: bool,
    /// What else is watched has something.
    others_wait: bool,
    ready: Vec<usize>,
    /// Sockets that have, or may have, something to receive: a bit each.
    waiting: u64,
    /// The socket that had something last.
    hot: usize,
    /// How well it foretells the next one; zero: not at all.
    hot_worth: u32,
    /// While nothing is known to wait, the hot socket is tried, and all sockets are looked at only
    /// every so many polls, because that costs a system call more.
    polls_per_check: u32,
    polls_until_check: u32,
    /// The kernel could not read what was to be sent.
    unreadable: bool,
    /// Errors that were no ordinary packet loss.
    pub errors: u64,
    /// The latest of these errors.
    pub last_error: Option<String>,
}

impl Sockets {
    /// The sockets of `datapath`, of which `look` watches each.
    pub fn new(datapath: Box<dyn Datapath>, look: Option<Waiter>, polls_per_check: u32) -> Sockets {
        let count = datapath.port().socket_count();
        Sockets {
            buffer: Some(ReceiveBuffer::new()),
            count,
            look,
            watches_others: false,
            others_wait: false,
            ready: Vec::with_capacity(count + 1),
            waiting: all(count),
            hot: 0,
            hot_worth: 0,
            polls_per_check,
            polls_until_check: 0,
            unreadable: false,
            errors: 0,
            last_error: None,
            datapath,
        }
    }

    /// Has something else watched besides the sockets, under an index from [`OTHERS`] on.
    pub fn watch_other(&mut self, fd: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        self.watches_others = true;
        match &self.look {
            Some(look) => look.watch(fd, OTHERS),
            None => Ok(()),
        }
    }

    /// True once if what else is watched has something.
    pub(crate) fn take_others(&mut self) -> bool {
        let unwatched = self.watches_others && self.look.is_none();
        std::mem::take(&mut self.others_wait) || unwatched
    }

    /// A thread that slept on the sockets saw that these have something.
    pub fn mark_ready(&mut self, ready: &[usize]) {
        for index in ready {
            match *index {
                socket if socket < OTHERS => self.waiting |= 1 << socket,
                _ => self.others_wait = true,
            }
        }
    }

    /// This socket may have more.
    pub fn mark(&mut self, socket: usize) {
        self.waiting |= 1 << socket;
    }

    /// This socket is not tried again before it is marked.
    pub(crate) fn unmark(&mut self, socket: usize) {
        self.waiting &= !(1 << socket);
    }

    /// True if a socket has, or may have, something to receive.
    pub(crate) fn any_waits(&self) -> bool {
        self.waiting != 0
    }

    /// The socket to try next, of those that are marked: the hot one first, then by number.
    pub fn next(&self) -> Option<usize> {
        match self.waiting {
            0 => None,
            waiting if waiting & 1 << self.hot != 0 => Some(self.hot),
            waiting => Some(waiting.trailing_zeros() as usize),
        }
    }

    /// So many packets came to a socket that was tried.
    pub fn took(&mut self, socket: usize, packets: usize) {
        if packets == 0 {
            return self.unmark(socket);
        }
        self.hot_worth = if socket == self.hot {
            (self.hot_worth + HOT_GAIN).min(HOT_MAX)
        } else {
            self.hot_worth.saturating_sub(HOT_LOSS)
        };
        self.hot = socket;
    }

    /// Decides which sockets to try in this poll.
    pub fn choose(&mut self) {
        let known = self.waiting != 0;
        if known && !self.watches_others {
            return;
        }
        if self.polls_until_check > 0 && (known || self.hot_worth > 0) {
            self.polls_until_check -= 1;
            if !known {
                self.waiting = 1 << self.hot;
            }
            return;
        }
        self.polls_until_check = self.polls_per_check - 1;
        self.check_all();
    }

    /// Has the next poll look at all sockets.
    pub fn check_all_next(&mut self) {
        (self.polls_until_check, self.waiting) = (0, 0);
    }

    /// Finds out which sockets have something to receive.
    pub(crate) fn check_all(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        match self.look.as_ref().map(|look| look.ready_now(&mut ready)) {
            Some(Ok(_)) => self.mark_ready(&ready),
            Some(Err(_)) | None => self.waiting = all(self.count),
        }
        self.ready = ready;
    }

    /// One receive call on a socket.
    pub fn receive<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> Option<Arrival<'b>> {
        match self.datapath.receive(socket, buffer) {
            Ok(arrival) => arrival,
            Err(error) => {
                self.trouble(&error);
                None
            }
        }
    }

    /// Takes the buffer for one receive call.
    pub fn take_buffer(&mut self) -> ReceiveBuffer {
        self.buffer.take().unwrap_or_default()
    }

    /// Gives the buffer back.
    pub fn give_buffer(&mut self, buffer: ReceiveBuffer) {
        self.buffer = Some(buffer);
    }

    /// Lets an emulated network let go of what it has held long enough.
    pub fn release_due(&mut self, now: Instant) {
        if let Err(error) = self.datapath.release_due(ns(now)) {
            self.trouble(&error);
        }
    }

    /// When an emulated network has something to let go of.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.datapath.next_release_ns().map(Instant::from_ns)
    }

    /// Counts an error of the sockets: to the protocol it is a lost packet.
    pub fn trouble(&mut self, error: &io::Error) {
        self.unreadable |= error.raw_os_error() == Some(libc::EFAULT);
        self.errors += 1;
        self.last_error = Some(error.to_string());
    }

    /// True once after the kernel could not read what was to be sent.
    pub fn take_unreadable(&mut self) -> bool {
        std::mem::take(&mut self.unreadable)
    }
}

fn all(sockets: usize) -> u64 {
    debug_assert!((1..=64).contains(&sockets));
    u64::MAX >> (64 - sockets)
}

/// The device's time as the port counts it.
pub fn ns(now: Instant) -> u64 {
    now.as_ps() / 1000
}
