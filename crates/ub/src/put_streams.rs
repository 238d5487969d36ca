//! The sender's side of mailboxes: how the puts of a Jetty to a mailbox are numbered, and which of
//! them are over.
//!
//! **Records are used again.** A stream is *idle* if none of its puts is open and nothing is to be
//! reported. If no record is free, that of the stream that has been idle for longest is used for
//! another one, so only streams with puts under way count. The receiver may have a record of the
//! forgotten stream, whose numbers it expects to go on. So the puts of a stream that is made anew
//! have numbers behind all those of forgotten streams (`PutStreams::begin`), and the first one is
//! issued alone: it is marked as the oldest, from which the receiver learns that everything before
//! it is over, however far its number is ahead. Where the numbers have come around so that they
//! seem to go back, the mark says the same. The others follow when the receiver has judged the
//! first.

use crate::injected_bug::InjectedBug;
use crate::list::{Linked, Links, List};
use crate::message::{Message, MessagePlace};
use crate::names::ChannelIndex;
use crate::order::{Key, Keyed, KeyedIndex};
use crate::pool::{Index, Pool};
use fairway_wire::{JettyId, Tag};

/// Most issued puts of a stream, and how far one may be ahead of the oldest that is not over: the
/// receiver accepts none that is further ahead.
const WINDOW_MAX: u32 = 128;

/// The puts of one Jetty to one mailbox.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Puts that are not over, in the order of their numbers.
    open: List<Index<Message>>,
    /// The next put's number.
    next: u32,
    /// Bytes of all puts so far, modulo 2^32.
    bytes: u32,
    /// Among the puts that are not over: those that may have to wait for something (`bound`); those
    /// issued (`issued`); and the limit of issued ones (`window`), which is lowered where many are
    /// sent back because they came too early.
    bound: u32,
    issued: u32,
    window: u32,
    /// Puts before this number were posted when the window was last halved: if more of them are
    /// sent back, it is for the same reason.
    halved_at: u32,
    /// Number of puts that wait for their turn.
    waiting: u32,
    /// Counts how often a put was issued, wrapping.
    issues: u32,
    /// The first and the last put that ended without the receiver having recorded their numbers,
    /// among those not reported to the receiver since.
    unnoted: Option<(u32, u32)>,
    /// The last put whose number the receiver has recorded.
    noted: u32,
    /// True while a report of ended puts to the receiver is in progress.
    is_reporting: bool,
    /// True if the receiver may expect other numbers: only the oldest put may be issued.
    is_anew: bool,
    /// The links of `PutStreams::idle`.
    links: Links<KeyedIndex<Stream>>,
}

impl Stream {
    /// A stream whose first put has this number.
    fn new(first: u32, is_anew: bool) -> Stream {
        Stream {
            open: List::EMPTY,
            next: first,
            bytes: 0,
            bound: 0,
            issued: 0,
            window: WINDOW_MAX,
            halved_at: first,
            waiting: 0,
            issues: 0,
            unnoted: None,
            noted: first.wrapping_sub(1),
            is_reporting: false,
            is_anew,
            links: Links::UNLINKED,
        }
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.unnoted.is_none() && !self.is_reporting
    }
}

impl Stream {
    /// True if this put may be issued as well. The oldest always may. A put that was sent back may
    /// only follow one that was issued after that: until then the put that it overtook is still
    /// missing.
    fn has_room_for(&self, messages: &Pool<Message>, index: Index<Message>) -> bool {
        let Some(first) = self.open.head().filter(|&first| first != index) else { return true };
        let message = &messages[index];
        let put = message.put();
        let ahead = number_of(message).wrapping_sub(number_of(&messages[first]));
        if self.is_anew || self.issued >= self.window || ahead >= WINDOW_MAX {
            return false;
        }
        if !put.was_early {
            // Puts that wait for their turn go first.
            return self.waiting == 0 || message.place == MessagePlace::AwaitingTurn;
        }
        let Some(previous) = put.links.previous() else { return true };
        let previous = messages[previous].put();
        previous.is_issued && previous.serial.wrapping_sub(put.serial) as i32 >= 0
    }
}

/// The puts of all Jetties to all mailboxes.
pub(crate) struct PutStreams {
    streams: Keyed<Stream>,
    /// Idle streams: the one that has been idle for longest first.
    idle: List<KeyedIndex<Stream>>,
    /// The number of the first put of a stream that is made now: no forgotten stream has used it or
    /// a later one.
    begin: u32,
    /// True if a stream was forgotten whose receiver may remember it.
    has_forgotten: bool,
}

impl Linked<KeyedIndex<Stream>> for Keyed<Stream> {
    fn links(&mut self, index: KeyedIndex<Stream>) -> &mut Links<KeyedIndex<Stream>> {
        &mut self[index].links
    }
}

/// The links of `Stream::open`.
struct Open<'a>(&'a mut Pool<Message>);

impl Linked<Index<Message>> for Open<'_> {
    fn links(&mut self, index: Index<Message>) -> &mut Links<Index<Message>> {
        &mut self.0[index].put_mut().links
    }
}

/// Bytes of a stream's record, with its share of the table.
pub(crate) const PUTS_BYTES: usize = Keyed::<Stream>::RECORD_BYTES;

/// True if the put may have to wait: for other operations, because of the order that it requests,
/// or for the epoch that it names.
fn may_wait(message: &Message) -> bool {
    message.order.tag() != Tag::No || message.order.request().fence || message.put().epoch.is_some()
}

/// The earlier of two numbers of one stream, which wrap.
fn earlier(one: u32, other: u32) -> u32 {
    if one.wrapping_sub(other) as i32 <= 0 { one } else { other }
}

/// The later of two numbers of one stream, which wrap.
fn later(one: u32, other: u32) -> u32 {
    if one.wrapping_sub(other) as i32 <= 0 { other } else { one }
}

fn number_of(message: &Message) -> u32 {
    message.put().sequence
}

impl PutStreams {
    pub(crate) fn new(capacity: u32) -> Self {
        PutStreams {
            streams: Keyed::new(capacity),
            idle: List::EMPTY,
            begin: 0,
            has_forgotten: false,
        }
    }

    fn key(message: &Message) -> Key {
        Key {
            channel: message.group(),
            jetty: message.jetty,
            address: message.put().mailbox.address,
        }
    }

    /// True if the put may be posted now. The receiver distinguishes puts that have not arrived by
    /// the bytes before each, modulo 2^32. So puts from the first that is not over on must stay
    /// below 2^32 bytes in total.
    pub(crate) fn prepare(
        &mut self,
        messages: &Pool<Message>,
        put: &Message,
        injected: Option<InjectedBug>,
    ) -> bool {
        let Some(index) = self.find_or_make(&Self::key(put), injected) else { return false };
        let stream = &self.streams[index];
        let first = stream.open.head();
        let open = first.map_or(0, |first| stream.bytes.wrapping_sub(messages[first].put().before));
        open.checked_add(put.local.length).is_some()
    }

    /// The stream with this key, made if there is none; `None` if all records are in use by streams
    /// that are not idle.
    fn find_or_make(
        &mut self,
        key: &Key,
        injected: Option<InjectedBug>,
    ) -> Option<KeyedIndex<Stream>> {
        if let Some(known) = self.streams.find(key) {
            return Some(known);
        }
        if self.streams.is_full() {
            self.forget_idle(self.idle.head()?);
        }
        let first = if injected == Some(InjectedBug::NumberAfresh) { 0 } else { self.begin };
        let is_anew = self.has_forgotten && injected != Some(InjectedBug::IssueAnew);
        let made = self.streams.find_or_make(key, Stream::new(first, is_anew))?;
        self.idle.push_back(&mut self.streams, made);
        Some(made)
    }

    /// Forgets an idle stream.
    fn forget_idle(&mut self, index: KeyedIndex<Stream>) {
        self.begin = later(self.begin, self.streams[index].next);
        self.has_forgotten = true;
        self.idle.unlink(&mut self.streams, index);
        self.streams.remove(index);
    }

    /// Makes the idle streams of a Jetty that ends the first whose records are used again. Until
    /// then the next Jetty of its number goes on with them.
    pub(crate) fn release_jetty(&mut self, jetty: JettyId) {
        let mut next = self.idle.head();
        while let Some(at) = next {
            next = self.streams[at].links.next();
            if self.streams.key(at).jetty == jetty {
                self.idle.unlink(&mut self.streams, at);
                self.idle.push_front(&mut self.streams, at);
            }
        }
    }

    /// Puts a stream into the list of idle ones, if it has become idle.
    fn list_idle(&mut self, at: KeyedIndex<Stream>) {
        if self.streams[at].is_idle() {
            self.idle.push_back(&mut self.streams, at);
        }
    }

    /// Numbers a put that was just posted.
    pub(crate) fn number(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        let message = &mut messages[index];
        let Some(at) = self.streams.find(&Self::key(message)) else { return };
        if self.streams[at].is_idle() {
            self.idle.unlink(&mut self.streams, at);
        }
        let stream = &mut self.streams[at];
        let is_bound = may_wait(message);
        let length = message.local.length;
        let put = message.put_mut();
        (put.sequence, put.before, put.is_bound) = (stream.next, stream.bytes, is_bound);
        stream.next = stream.next.wrapping_add(1);
        stream.bytes = stream.bytes.wrapping_add(length);
        stream.bound += u32::from(is_bound);
        stream.open.push_back(&mut Open(messages), index);
    }

    /// Records, in a put that is about to be sent, whether everything before it is over; and if
    /// not, whether any of it may be waiting. If the receiver kept room for a put that waits, what
    /// that put waits for could need the room.
    pub(crate) fn note_order(&self, message: &mut Message, index: Index<Message>) {
        let status = match self.streams.find(&Self::key(message)) {
            None => (true, false),
            Some(at) => {
                let stream = &self.streams[at];
                let others = stream.bound - u32::from(message.put().is_bound);
                (stream.open.head() == Some(index), others > 0)
            }
        };
        let put = message.put_mut();
        (put.is_oldest, put.follows) = status;
    }

    /// Marks a put as over. The receiver has recorded its number, or else (`unnoted`) may keep room
    /// for it, if it has admitted later ones. In that case it must be notified that all puts up to
    /// the returned number are over.
    pub(crate) fn over(
        &mut self,
        messages: &mut Pool<Message>,
        index: Index<Message>,
        unnoted: bool,
    ) -> Option<u32> {
        let at = self.streams.find(&Self::key(&messages[index]))?;
        let stream = &mut self.streams[at];
        stream.open.unlink(&mut Open(messages), index);
        let put = messages[index].put();
        let number = put.sequence;
        stream.bound -= u32::from(put.is_bound);
        stream.issued -= u32::from(put.is_issued);
        if !put.was_early {
            stream.window = (stream.window + 1).min(WINDOW_MAX);
        }
        if unnoted {
            let (first, last) = stream.unnoted.unwrap_or((number, number));
            stream.unnoted = Some((earlier(first, number), later(last, number)));
        }
        let report = self.next_to_report(messages, at);
        self.list_idle(at);
        report
    }

    /// Records that the receiver has recorded the number of a put: it may keep room for those
    /// before it.
    pub(crate) fn note(&mut self, messages: &Pool<Message>, index: Index<Message>) {
        if let Some(at) = self.streams.find(&Self::key(&messages[index])) {
            let stream = &mut self.streams[at];
            stream.noted = later(stream.noted, number_of(&messages[index]));
            stream.is_anew = false;
        }
    }

    /// Records that the receiver has judged a put, and has asked to try it again.
    pub(crate) fn judged(&mut self, messages: &Pool<Message>, index: Index<Message>) {
        if let Some(at) = self.streams.find(&Self::key(&messages[index])) {
            self.streams[at].is_anew = false;
        }
    }

    /// Issues a put, unless as many of its stream as allowed are issued already. The oldest may
    /// always be issued.
    pub(crate) fn issue(&mut self, messages: &mut Pool<Message>, index: Index<Message>) -> bool {
        let message = &mut messages[index];
        let Some(at) = self.streams.find(&Self::key(message)) else { return true };
        let may = self.streams[at].has_room_for(messages, index);
        let (stream, message) = (&mut self.streams[at], &mut messages[index]);
        let waits = message.place == MessagePlace::AwaitingTurn;
        let put = message.put_mut();
        if !put.is_issued && may {
            put.is_issued = true;
            put.serial = stream.issues;
            stream.issues = stream.issues.wrapping_add(1);
            stream.issued += 1;
            stream.waiting -= u32::from(waits);
        }
        put.is_issued
    }

    /// Makes a put wait for its turn.
    pub(crate) fn wait(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        let Some(at) = self.streams.find(&Self::key(&messages[index])) else { return };
        self.streams[at].waiting += 1;
        messages[index].place = MessagePlace::AwaitingTurn;
    }

    /// Ends the wait of a put that ends without having been sent.
    pub(crate) fn stop_waiting(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        let Some(at) = self.streams.find(&Self::key(&messages[index])) else { return };
        self.streams[at].waiting -= 1;
        messages[index].place = MessagePlace::Unlisted;
    }

    /// Called when a put was sent back because earlier ones were missing. True if it has to wait
    /// for its turn.
    pub(crate) fn sent_back(
        &mut self,
        messages: &mut Pool<Message>,
        index: Index<Message>,
    ) -> bool {
        let message = &mut messages[index];
        message.put_mut().was_early = true;
        let Some(at) = self.streams.find(&Self::key(message)) else { return false };
        let stream = &mut self.streams[at];
        let put = message.put_mut();
        stream.issued -= u32::from(core::mem::take(&mut put.is_issued));
        put.serial = stream.issues;
        if put.sequence.wrapping_sub(stream.halved_at) as i32 >= 0 {
            stream.window = (stream.window / 2).max(1);
            stream.halved_at = stream.next;
        }
        stream.open.head() != Some(index)
    }

    /// The first put of the stream of `index` that waits for its turn, if that has come.
    pub(crate) fn next_turn(
        &self,
        messages: &Pool<Message>,
        index: Index<Message>,
    ) -> Option<Index<Message>> {
        let stream = &self.streams[self.streams.find(&Self::key(&messages[index]))?];
        if stream.waiting == 0 {
            return None;
        }
        let mut next = stream.open.head();
        while let Some(at) = next {
            let message = &messages[at];
            if message.place == MessagePlace::AwaitingTurn {
                return stream.has_room_for(messages, at).then_some(at);
            }
            next = message.put().links.next();
        }
        None
    }

    /// Called when the receiver has confirmed a report of ended puts. Returns the next number to
    /// report, if any.
    pub(crate) fn report_confirmed(
        &mut self,
        messages: &Pool<Message>,
        index: Index<Message>,
    ) -> Option<u32> {
        let at = self.streams.find(&Self::key(&messages[index]))?;
        if !core::mem::take(&mut self.streams[at].is_reporting) {
            return None;
        }
        let report = self.next_to_report(messages, at);
        self.list_idle(at);
        report
    }

    fn next_to_report(&mut self, messages: &Pool<Message>, at: KeyedIndex<Stream>) -> Option<u32> {
        let stream = &mut self.streams[at];
        let (first, last) = stream.unnoted.filter(|_| !stream.is_reporting)?;
        let first_open = stream.open.head();
        let floor = first_open.map_or(stream.next, |first| number_of(&messages[first]));
        if floor.wrapping_sub(last) as i32 <= 0 {
            return None;
        }
        stream.unnoted = None;
        // If the receiver has recorded no put after one of these, it keeps no room for them, and
        // the next put is marked as the oldest.
        stream.is_reporting =
            last.wrapping_add(1) != stream.next || earlier(first, stream.noted) == first;
        stream.is_reporting.then(|| floor.wrapping_sub(1))
    }

    /// Forgets the streams of a channel that ends. So does the receiver.
    pub(crate) fn forget_channel(&mut self, channel: ChannelIndex) {
        let mut next = self.idle.head();
        while let Some(at) = next {
            next = self.streams[at].links.next();
            if self.streams.key(at).channel == channel {
                self.idle.unlink(&mut self.streams, at);
            }
        }
        self.streams.forget_channel(channel);
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.streams.in_use()
    }
}
