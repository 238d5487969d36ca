//! The sockets of a device: chooses the one to try next, and makes the calls that receive.

use std::io;

use fairway_port::{ATTEND, Arrival, Datapath, ReceiveBuffer, Waiter};
use fairway_wire::Instant;

use crate::clock::{self, ns};

/// The hot socket's score grows by this much with every packet that arrives there, ...
const HOT_GAIN: u32 = 1;
/// ... up to this maximum, and shrinks by `HOT_LOSS` with every packet at another socket.
const HOT_MAX: u32 = 16;
const HOT_LOSS: u32 = 4;

/// While the hot socket has its maximum score, all sockets are checked this number of times less
/// often.
const HOT_POLLS: u32 = 4;

/// While memory is shared with a peer, sockets are tried once in this number of polls, because a
/// system call costs as much as many looks at memory.
const POLLS_OF_MEMORY: u32 = 16;

/// While packets arrive in memory and none at the sockets, the sockets are tried less often: at
/// last in one of this number of the polls in which they would be.
const LOOKS_SPARED_MAX: u32 = 8;

/// First index of a waiter that is not a socket, but something else from which a protocol receives.
pub const OTHERS: usize = 1 << 16;

/// The sockets, and buffers to receive from them without allocating.
pub struct Sockets {
    /// The port through which packets are received and sent.
    pub datapath: Box<dyn Datapath>,
    /// The receive buffer; `None` while an arrival is being processed.
    buffer: Option<ReceiveBuffer>,
    /// Number of sockets.
    count: usize,
    /// Watches all sockets, to find out without waiting which are readable. Without it every socket
    /// is tried, which is slower but otherwise equivalent.
    look: Option<Waiter>,
    /// True if `look` watches other descriptors than sockets, too.
    watches_others: bool,
    /// True if another watched descriptor is readable.
    others_wait: bool,
    ready: Vec<usize>,
    /// Sockets that are, or may be, readable: one bit each.
    waiting: u64,
    /// Sockets for which packets wait in memory that peers of this host share: one bit each.
    in_memory: u64,
    /// Polls since the sockets were last tried while such memory exists.
    polls_of_memory: u32,
    /// The sockets are tried in one of this number of the polls that look at more than memory, and
    /// how many of these have passed since.
    looks_spared: u32,
    looks_passed: u32,
    /// True if packets have arrived in memory, or at a socket, since the sockets were last tried.
    memory_served: bool,
    sockets_served: bool,
    /// True if sockets are tried before memory in this poll.
    sockets_first: bool,
    /// True if descriptors of the datapath other than sockets are readable.
    attention: bool,
    /// The socket that received the last packets.
    hot: usize,
    /// Score of how well the hot socket predicts the next one; zero: not at all.
    hot_worth: u32,
    /// While no socket is known to be readable, only the hot socket is tried. All sockets are
    /// checked only once in this number of polls, because that costs another system call.
    polls_per_check: u32,
    polls_until_check: u32,
    /// True if the kernel could not read the payload of a packet to be sent.
    unreadable: bool,
    /// Number of errors that were not ordinary packet loss.
    pub errors: u64,
    /// The latest of these errors.
    pub last_error: Option<String>,
}

impl Sockets {
    /// Returns the sockets of `datapath`, all of which `look` watches.
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
            in_memory: 0,
            polls_of_memory: 0,
            looks_spared: 1,
            looks_passed: 0,
            memory_served: false,
            sockets_served: false,
            sockets_first: false,
            attention: false,
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

    /// Watches another descriptor besides the sockets, under an index from [`OTHERS`] on.
    pub fn watch_other(&mut self, fd: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        self.watches_others = true;
        match &self.look {
            Some(look) => look.watch(fd, OTHERS),
            None => Ok(()),
        }
    }

    /// Returns true, once, if another watched descriptor is readable.
    pub(crate) fn take_others(&mut self) -> bool {
        let unwatched = self.watches_others && self.look.is_none();
        std::mem::take(&mut self.others_wait) || unwatched
    }

    /// Marks sockets that a sleeping thread has found readable. The next poll looks at everything.
    pub fn mark_ready(&mut self, ready: &[usize]) {
        self.polls_of_memory = POLLS_OF_MEMORY - 1;
        self.looks_passed = self.looks_spared;
        self.mark_all(ready);
    }

    fn mark_all(&mut self, ready: &[usize]) {
        for index in ready {
            match *index {
                socket if socket < OTHERS => self.waiting |= 1 << socket,
                ATTEND => self.attention = true,
                _ => self.others_wait = true,
            }
        }
    }

    /// Marks a socket that may have more packets.
    pub fn mark(&mut self, socket: usize) {
        self.waiting |= 1 << socket;
    }

    /// Removes a socket's mark: it is not tried again before it is marked.
    pub(crate) fn unmark(&mut self, socket: usize) {
        *self.tried() &= !(1 << socket);
    }

    /// True if a packet waits in memory, or a socket is, or may be, readable.
    pub(crate) fn any_waits(&self) -> bool {
        self.waiting | self.in_memory != 0
    }

    /// Returns the socket to try next among the marked ones: the hot one first, then by number.
    pub fn next(&self) -> Option<usize> {
        match self.tried_next() {
            0 => None,
            waiting if waiting & 1 << self.hot != 0 => Some(self.hot),
            waiting => Some(waiting.trailing_zeros() as usize),
        }
    }

    /// The sockets that are tried next: those with packets in memory, or those that are readable.
    fn tried_next(&self) -> u64 {
        if self.tries_memory() { self.in_memory } else { self.waiting }
    }

    /// The same, to be changed.
    fn tried(&mut self) -> &mut u64 {
        if self.tries_memory() { &mut self.in_memory } else { &mut self.waiting }
    }

    /// True if packets in memory are received next, and not those of a socket.
    fn tries_memory(&self) -> bool {
        self.in_memory != 0 && !(self.sockets_first && self.waiting != 0)
    }

    /// Records that `packets` packets arrived at a socket that was tried.
    pub fn took(&mut self, socket: usize, packets: usize) {
        if packets == 0 {
            return self.unmark(socket);
        }
        match self.tries_memory() {
            true => self.memory_served = true,
            false => self.sockets_served = true,
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
        if std::mem::take(&mut self.attention) {
            self.datapath.attend();
        }
        let ready = self.datapath.ready();
        self.in_memory = ready.unwrap_or(0);
        self.polls_of_memory = match ready {
            None => 0,
            Some(_) => (self.polls_of_memory + 1) % POLLS_OF_MEMORY,
        };
        self.sockets_first = self.polls_of_memory == 0 && self.tries_sockets();
        if !self.sockets_first {
            return;
        }
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
        let rarely = if self.hot_worth == HOT_MAX { HOT_POLLS } else { 1 };
        self.polls_until_check = rarely * self.polls_per_check - 1;
        self.check_all();
    }

    /// Decides whether a poll that looks at more than memory tries the sockets. They are tried
    /// less and less often while only memory carries packets.
    fn tries_sockets(&mut self) -> bool {
        self.looks_passed += 1;
        if self.looks_passed < self.looks_spared {
            return false;
        }
        self.looks_passed = 0;
        let served =
            (std::mem::take(&mut self.memory_served), std::mem::take(&mut self.sockets_served));
        self.looks_spared = match served {
            (true, false) => (2 * self.looks_spared).min(LOOKS_SPARED_MAX),
            _ => 1,
        };
        true
    }

    /// Makes the next poll check all sockets.
    pub fn check_all_next(&mut self) {
        (self.polls_until_check, self.waiting) = (0, 0);
        self.looks_passed = self.looks_spared;
        self.polls_of_memory = POLLS_OF_MEMORY - 1;
    }

    /// True if this poll has found no packet in memory, and the next one is only some ten
    /// nanoseconds away: the sockets, the timers and what waits to be sent are looked at in one of
    /// [`POLLS_OF_MEMORY`] polls.
    pub(crate) fn may_skip(&self) -> bool {
        self.polls_of_memory != 0 && !self.any_waits()
    }

    /// Finds out which sockets are readable.
    pub(crate) fn check_all(&mut self) {
        if let Some(ready) = self.datapath.ready() {
            self.in_memory = ready;
        }
        let mut ready = std::mem::take(&mut self.ready);
        match self.look.as_ref().map(|look| look.ready_now(&mut ready)) {
            Some(Ok(_)) => self.mark_all(&ready),
            Some(Err(_)) | None => self.waiting = all(self.count),
        }
        self.ready = ready;
    }

    /// Requests that a packet in memory wake a thread that is about to sleep on the descriptors.
    /// Returns true if a packet is there already.
    pub fn arm(&mut self) -> bool {
        self.datapath.arm()
    }

    /// Receives from memory, or makes one receive call on a socket.
    pub fn receive<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> Option<Arrival<'b>> {
        if self.tries_memory() {
            return self.datapath.receive_ready(socket, buffer);
        }
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

    /// Returns the buffer.
    pub fn give_buffer(&mut self, buffer: ReceiveBuffer) {
        self.buffer = Some(buffer);
    }

    /// Makes an emulated network release the packets that it has delayed for long enough.
    pub fn release_due(&mut self, now: Instant) {
        if let Err(error) = self.datapath.release_due(ns(now)) {
            self.trouble(&error);
        }
    }

    /// As [`Sockets::release_due`]. Reads the clock only if an emulated network delays packets.
    pub(crate) fn release_if_due(&mut self) {
        if self.datapath.next_release_ns().is_some() {
            self.release_due(clock::now());
        }
    }

    /// Time at which an emulated network has a packet to release.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.datapath.next_release_ns().map(Instant::from_ns)
    }

    /// Counts an error of the sockets, which the protocol treats as a lost packet.
    pub fn trouble(&mut self, error: &io::Error) {
        self.unreadable |= error.raw_os_error() == Some(libc::EFAULT);
        self.errors += 1;
        self.last_error = Some(error.to_string());
    }

    /// Returns true once after the kernel could not read the payload of a packet to be sent.
    pub fn take_unreadable(&mut self) -> bool {
        std::mem::take(&mut self.unreadable)
    }
}

fn all(sockets: usize) -> u64 {
    debug_assert!((1..=64).contains(&sockets));
    u64::MAX >> (64 - sockets)
}

#[cfg(test)]
mod tests {
    use fairway_port::{UdpConfig, UdpPort};

    use super::*;

    #[test]
    fn socket_stays_marked_when_what_came_from_memory_has_been_received() {
        let bind = std::net::Ipv4Addr::LOCALHOST.into();
        let config = UdpConfig { bind, first_port: 0, sockets: 2, buffer_bytes: 1 << 16 };
        let mut sockets = Sockets::new(Box::new(UdpPort::bind(&config).unwrap()), None, 1);
        (sockets.waiting, sockets.in_memory) = (1 << 1, 1 << 1);
        assert!(sockets.tries_memory());
        sockets.unmark(1);
        assert!(!sockets.tries_memory());
        assert_eq!(sockets.next(), Some(1), "the socket itself is still to be tried");
        sockets.unmark(1);
        assert_eq!((sockets.next(), sockets.any_waits()), (None, false));
    }
}
