//! The sender's side of mailboxes: how the puts of a Jetty to a mailbox are numbered.

use crate::list::Links;
use crate::message::{Message, MessageKind};
use crate::order::{Key, Keyed};
use crate::pool::{NONE, Pool};

/// The puts of one Jetty to one mailbox.
///
/// The receiver tells the puts that it has yet to see by their numbers and by how many bytes went
/// before each, modulo 2^32. So those between the oldest that is not over and the newest have to
/// stay below 2^32 bytes together. That is kept up by two generations: `old` puts from `start` on,
/// and `young` ones since `mark`; when the last old one is over, the young ones become the old.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Bytes of all puts so far; of those before the first old one; of those before the first young
    /// one.
    bytes: u64,
    start: u64,
    mark: u64,
    /// The next put's number, and the first young one's.
    next: u32,
    marked: u32,
    /// Puts that are not over.
    old: u32,
    young: u32,
    /// Puts that were given up, and of which the receiver has to be told yet.
    abandoned: u32,
}

/// The puts of all Jetties to all mailboxes.
pub(crate) struct Puts {
    streams: Keyed<Stream>,
}

/// Bytes of a stream's record, with its share of the table.
pub(crate) const PUTS_BYTES: usize = Keyed::<Stream>::RECORD_BYTES;

impl Puts {
    pub(crate) fn new(capacity: u32) -> Self {
        Puts { streams: Keyed::new(capacity) }
    }

    fn key(message: &Message) -> Key {
        Key { channel: message.channel, jetty: message.jetty, address: message.immediate }
    }

    /// May such a put be posted now?
    pub(crate) fn prepare(&mut self, message: &Message) -> bool {
        let key = Self::key(message);
        let Some(index) = self.streams.find_or_make(&key, Stream::default()) else { return false };
        let stream = &self.streams[index];
        let span = stream.bytes + u64::from(message.local.length) - stream.start;
        span <= u64::from(u32::MAX)
    }

    /// Numbers a put.
    pub(crate) fn number(&mut self, message: &mut Message) {
        let Some(index) = self.streams.find(&Self::key(message)) else { return };
        let stream = &mut self.streams[index];
        message.is_oldest = stream.old + stream.young == 0;
        message.compare = u64::from(stream.next) << 32 | (stream.bytes & u64::from(u32::MAX));
        stream.next = stream.next.wrapping_add(1);
        stream.bytes += u64::from(message.local.length);
        if message.is_oldest {
            stream.start = stream.bytes - u64::from(message.local.length);
            stream.old = 1;
            (stream.mark, stream.marked) = (stream.bytes, stream.next);
        } else {
            stream.young += 1;
        }
    }

    /// A put has failed, and the receiver has yet to hear that it will never come.
    pub(crate) fn give_up(&mut self, message: &Message) {
        if let Some(index) = self.streams.find(&Self::key(message)) {
            self.streams[index].abandoned += 1;
        }
    }

    /// A put is over: whatever became of it, the receiver knows.
    pub(crate) fn over(&mut self, message: &Message) {
        let Some(index) = self.streams.find(&Self::key(message)) else { return };
        let stream = &mut self.streams[index];
        if message.kind == MessageKind::Abandon {
            stream.abandoned -= 1;
        }
        let sequence = (message.compare >> 32) as u32;
        if (sequence.wrapping_sub(stream.marked) as i32) < 0 {
            stream.old -= 1;
        } else {
            stream.young -= 1;
        }
        if stream.old == 0 {
            (stream.old, stream.young) = (stream.young, 0);
            stream.start = stream.mark;
            (stream.mark, stream.marked) = (stream.bytes, stream.next);
        }
        if stream.old == 0 {
            stream.start = stream.bytes;
        }
    }

    /// Is everything before this put over? Walks what its Jetty has under way before it: only to be
    /// asked when it was sent back.
    pub(crate) fn is_oldest(&self, messages: &Pool<Message>, first: u32, index: u32) -> bool {
        let key = Self::key(&messages[index]);
        if self.streams.find(&key).is_none_or(|stream| self.streams[stream].abandoned > 0) {
            return false;
        }
        let mut at = first;
        while at != index && at != NONE {
            let Message { incomplete_links: Links { next, .. }, kind, parked, .. } = messages[at];
            if kind == MessageKind::Put && parked.is_none() && Self::key(&messages[at]) == key {
                return false;
            }
            at = next;
        }
        at == index
    }

    pub(crate) fn forget_channel(&mut self, channel: u32) {
        self.streams.forget_channel(channel);
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.streams.in_use()
    }
}
