//! The receiving side of file copies.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use fairway::{ChannelId, Context, Peer, Profile, Segment, SegmentKey};
use fairway_wire::Duration as EngineDuration;

use super::Hashing;
use super::incoming::{Directory, Incoming};
use super::limits::{Holder, Limits, Place, Taken};
use super::lines::Lines;
use super::message::{JETTY, MESSAGE_BYTES, Message};
use super::opening::{Opened, Request};
use super::refusal::Refusal;
use super::stale;
use super::turns::{Turns, Work};
use crate::args::ServeOptions;
use crate::failure::Failure;
use crate::mailbox::{Mail, Mailbox};
use crate::net::{self, SERVE};
use crate::paths::DeadPaths;
use crate::process::{self, say};
use crate::quantity::show_size;

/// Interval at which an idle server checks for clients that have gone, and for its own end.
const STEP: Duration = Duration::from_millis(100);
/// Longest wait at the server's end for files that are still being created.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// Interval of the checks for created files.
const SHORT_STEP: Duration = Duration::from_millis(1);
/// Number of blocks of a file that are hashed before it is the turn of another address.
const PART_BLOCKS: usize = 64;
/// Number of keep-alives within the time after which a silent client is dead.
const KEEP_ALIVES: u32 = 6;

/// Refusal of a message that belongs to no copy.
const NO_COPY: Refusal = Refusal::State("no copy is going on");

/// Runs `fairway serve`.
pub(crate) fn serve(options: &ServeOptions) -> Result<(), Failure> {
    options.net.check()?;
    let shown = options.dir.display();
    let directory = Directory::open(&options.dir, process::umask())
        .map_err(|error| Failure::io(format!("open the directory '{shown}'"), &error))?;
    process::catch_signals();
    let span = |time: Duration| {
        EngineDuration::from_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 12).max(1))
    };
    let profile = Profile::new()
        .peer_dead(span(options.peer_dead))
        .keep_alive(span(options.peer_dead / KEEP_ALIVES));
    let builder = options.net.builder(SERVE.port, None).profile(profile);
    // Each file comes by a connection of its own, and all may come from one address.
    let builder = builder.room_for_peers(options.max_files);
    let context = net::open(builder.unreliable_messages(false).loads_and_stores(false))?;
    let mailbox = Mailbox::for_peers(&context, JETTY, MESSAGE_BYTES, options.max_files)?;
    let mailbox = Arc::new(mailbox);
    let addresses = context.local_addrs();
    let first = addresses.first().map_or_else(String::new, ToString::to_string);
    process::print(&format!(
        "fairway serve: '{shown}', {} sockets, listening on {first}\n",
        addresses.len()
    ))?;
    // A large tree takes long to search, and nothing waits for the result.
    let tree = options.dir.clone();
    // If the thread can't be started, the files stay until the next start.
    let _ = std::thread::Builder::new().spawn(move || stale::remove(&tree));
    let (sender, results) = channel();
    let limits = Limits {
        files: options.max_files,
        bytes: options.max_bytes.unwrap_or(u64::MAX),
        keep_free: options.keep_free,
        share: options.address_share,
    };
    let mut server = Server {
        context,
        mailbox,
        directory: Arc::new(directory),
        limits,
        taken: Arc::default(),
        refusals: Lines::new(Instant::now()),
        arrivals: Lines::new(Instant::now()),
        copies: HashMap::new(),
        opening: HashMap::new(),
        tickets: 0,
        hashes: Turns::new(),
        sender,
        results,
    };
    while !process::stopping() {
        server.turn()?;
    }
    server.end();
    // Peers that are still connected are notified; their answers are not needed.
    let _ = server.context.shutdown(Duration::from_millis(500));
    Ok(())
}

struct Server {
    context: Context,
    mailbox: Arc<Mailbox>,
    directory: Arc<Directory>,
    limits: Limits,
    taken: Arc<Taken>,
    /// Log lines for refusals, and for files whose copy begins or is dropped.
    refusals: Lines,
    arrivals: Lines,
    /// Files being received, by client. A client copies one file at a time.
    copies: HashMap<ChannelId, Copy>,
    /// Clients whose files are being created, with the ticket of the latest request.
    opening: HashMap<ChannelId, u64>,
    tickets: u64,
    hashes: Turns<Hash>,
    sender: Sender<Finished>,
    results: Receiver<Finished>,
}

/// Result of work on another thread.
enum Finished {
    /// The file was created, or not.
    Opened(Box<Request>, Result<Opened, Refusal>),
    /// The file was hashed, and the hash was sent.
    Hashed(Copy),
}

/// A file that is being hashed.
struct Hash {
    copy: Copy,
    hashing: Hashing,
    mailbox: Arc<Mailbox>,
    sender: Sender<Finished>,
}

impl Work for Hash {
    fn part(mut self) -> Option<Self> {
        let peer = self.copy.peer.clone();
        match hash_part(&mut self.hashing, &self.copy.incoming.file, || peer.is_alive()) {
            Part::More => return Some(self),
            // The server drops the file of a client that has gone.
            Part::Unwanted => drop(self.sender.send(Finished::Hashed(self.copy))),
            Part::Last(answer) => {
                self.copy.hashed = matches!(answer, Message::Hash(_));
                let reply_to = self.copy.reply_to;
                // The result comes first, because it must be there when the client answers.
                if self.sender.send(Finished::Hashed(self.copy)).is_ok() {
                    let _ = self.mailbox.send(&peer, reply_to, &answer.encode());
                }
            }
        }
        None
    }
}

/// Result of hashing a part of a file.
enum Part {
    /// More follows.
    More,
    /// The client has gone.
    Unwanted,
    /// It was the last one, and the client gets this answer.
    Last(Message),
}

/// Hashes some blocks of a file, as long as its client is there.
fn hash_part(hashing: &mut Hashing, file: &File, is_wanted: impl Fn() -> bool) -> Part {
    for _ in 0..PART_BLOCKS {
        if !is_wanted() {
            return Part::Unwanted;
        }
        match hashing.block(file) {
            Ok(None) => {}
            Ok(Some(hash)) => return Part::Last(Message::Hash(hash)),
            Err(error) => {
                let text = format!("could not read the file back: {error}");
                return Part::Last(Message::Refusal(text));
            }
        }
    }
    Part::More
}

/// A file that is being received.
struct Copy {
    peer: Peer,
    /// The client's Jetty for the server's messages.
    reply_to: u32,
    incoming: Incoming,
    /// The file's pages, as long as the client may write to them.
    segment: Option<Segment>,
    /// Whether the hash was sent to the client.
    hashed: bool,
    /// Released when the file is stored or removed.
    place: Place,
}

impl Server {
    fn turn(&mut self) -> Result<(), Failure> {
        let mail = self.mail()?;
        let _ = self.context.poll_events();
        while let Ok(finished) = self.results.try_recv() {
            self.finished(finished);
        }
        for (_, copy) in self.copies.extract_if(|_, copy| !copy.peer.is_alive()) {
            let (client, name) = (copy.peer.address(), copy.incoming.shown.clone());
            let line = format!("{client}: '{name}' dropped: the client has gone");
            copy.discard(self.arrivals.line(&line));
        }
        if let Some(Mail { peer: Some(peer), sender, bytes }) = mail {
            self.handle(&peer, sender, &bytes);
        }
        Ok(())
    }

    /// Removes the files that are being received. Files for which the disk takes too long are not
    /// waited for; they are removed at the next start.
    fn end(&mut self) {
        self.copies.clear();
        self.hashes.close();
        let until = Instant::now() + LAST_WAIT;
        while !self.opening.is_empty()
            && let Ok(finished) =
                self.results.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if let Finished::Opened(request, _) = finished {
                self.opening.retain(|_, ticket| *ticket != request.ticket);
            }
        }
    }

    /// The next message, if one arrives within a short wait. While files are being written the wait
    /// polls without sleeping, because the polling thread moves the packets.
    fn mail(&self) -> Result<Option<Mail>, Failure> {
        let step = if self.opening.is_empty() { STEP } else { SHORT_STEP };
        if self.copies.values().all(|copy| copy.segment.is_none()) {
            return self.mailbox.wait(step);
        }
        let until = Instant::now() + step;
        while Instant::now() < until {
            if let Some(mail) = self.mailbox.poll()? {
                return Ok(Some(mail));
            }
        }
        Ok(None)
    }

    fn handle(&mut self, peer: &Peer, reply_to: u32, bytes: &[u8]) {
        let channel = peer.channel();
        let result = match Message::decode(bytes) {
            Ok(Message::Open { size, mode, overwrite, name }) => {
                self.forget(channel, Some("the client sends another file"));
                self.limits.admit(&self.taken, peer.address().ip(), size).and_then(|place| {
                    self.tickets += 1;
                    let (ticket, peer) = (self.tickets, peer.clone());
                    self.open(Request {
                        ticket,
                        peer,
                        reply_to,
                        size,
                        mode,
                        overwrite,
                        name,
                        place,
                    })
                })
            }
            Ok(Message::Done) => self.done(channel),
            Ok(Message::Commit) => self.commit(channel),
            Ok(Message::Abort) => {
                self.forget(channel, Some("the client has given it up"));
                Ok(())
            }
            Ok(_) => Err(Refusal::State("the client sent an unexpected message")),
            Err(error) => Err(error.into()),
        };
        if let Err(reason) = result {
            self.refuse(peer, reply_to, &reason);
        }
    }

    fn refuse(&mut self, peer: &Peer, reply_to: u32, refusal: &Refusal) {
        self.forget(peer.channel(), None);
        self.refusals.print(&format!("{}: refused: {refusal}", peer.address()));
        // A client that has gone needs no answer.
        let message = Message::Refusal(refusal.to_string());
        let _ = self.mailbox.send(peer, reply_to, &message.encode());
    }

    /// Drops a client's file, or its request for one, with a line in the log if `why` is given.
    fn forget(&mut self, channel: ChannelId, why: Option<&str>) {
        self.opening.remove(&channel);
        if let Some(copy) = self.copies.remove(&channel) {
            let (client, name) = (copy.peer.address(), copy.incoming.shown.clone());
            let line = why.map(|why| format!("{client}: '{name}' dropped: {why}"));
            copy.discard(line.and_then(|line| self.arrivals.line(&line)));
        }
    }

    /// Creates a file on another thread, while the server continues.
    fn open(&mut self, request: Request) -> Result<(), Refusal> {
        let (context, directory) = (self.context.clone(), Arc::clone(&self.directory));
        let (sender, keep_free) = (self.sender.clone(), self.limits.keep_free);
        let (channel, ticket) = (request.peer.channel(), request.ticket);
        beside(move || {
            let opened = request.open(&context, &directory, keep_free);
            // If the server has ended, the file is dropped with the message.
            let _ = sender.send(Finished::Opened(Box::new(request), opened));
        })?;
        self.opening.insert(channel, ticket);
        Ok(())
    }

    fn finished(&mut self, finished: Finished) {
        match finished {
            Finished::Hashed(copy) => {
                let channel = copy.peer.channel();
                // The client may have requested another file meanwhile.
                match self.copies.contains_key(&channel) || self.opening.contains_key(&channel) {
                    true => copy.discard(None),
                    false => drop(self.copies.insert(channel, copy)),
                }
            }
            Finished::Opened(request, opened) => {
                let channel = request.peer.channel();
                let is_wanted = self.opening.get(&channel) == Some(&request.ticket);
                if is_wanted {
                    self.opening.remove(&channel);
                }
                match opened {
                    Ok(opened) if is_wanted => self.begin(*request, opened),
                    Ok(Opened { incoming, segment }) => {
                        let Request { peer, reply_to, place, .. } = *request;
                        Copy { peer, reply_to, incoming, segment, hashed: false, place }
                            .discard(None);
                    }
                    Err(reason) if is_wanted => {
                        let Request { peer, reply_to, place, .. } = *request;
                        drop(place);
                        self.refuse(&peer, reply_to, &reason);
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// Handles a created file: the client may write.
    fn begin(&mut self, request: Request, opened: Opened) {
        let Request { peer, reply_to, place, .. } = request;
        let Opened { incoming, segment } = opened;
        let nothing = SegmentKey { token_id: 0, token_value: 0, address: 0, length: 0 };
        let key = segment.as_ref().map_or(nothing, Segment::key);
        let (shown, size) = (&incoming.shown, show_size(incoming.size));
        self.arrivals.print(&format!("{}: receiving '{shown}', {size} bytes", peer.address()));
        let channel = peer.channel();
        let copy = Copy { peer, reply_to, incoming, segment, hashed: false, place };
        match copy.answer(&self.mailbox, &Message::Opened { key }) {
            Ok(()) => {
                self.copies.insert(channel, copy);
            }
            Err(reason) => {
                let peer = copy.peer.clone();
                copy.discard(None);
                self.refuse(&peer, reply_to, &reason);
            }
        }
    }

    /// Lets the file be hashed on another thread, while the server continues.
    fn done(&mut self, channel: ChannelId) -> Result<(), Refusal> {
        let mut copy = self.copies.remove(&channel).ok_or(NO_COPY)?;
        if copy.hashed {
            copy.discard(None);
            return Err(Refusal::State("the file has been hashed already"));
        }
        // The client can't write to the pages any more while they are hashed.
        copy.segment = None;
        let (mailbox, sender) = (Arc::clone(&self.mailbox), self.sender.clone());
        let client = Holder::client(copy.peer.address().ip());
        let hashing = Hashing::new(copy.incoming.size);
        self.hashes.add(client, Hash { copy, hashing, mailbox, sender })
    }

    /// Stores the file on another thread, while the server continues.
    fn commit(&mut self, channel: ChannelId) -> Result<(), Refusal> {
        let copy = self.copies.remove(&channel).ok_or(NO_COPY)?;
        if !copy.hashed {
            return Err(Refusal::State("the file has not been compared yet"));
        }
        let mailbox = Arc::clone(&self.mailbox);
        let work = move || {
            let Copy { peer, reply_to, incoming, place, .. } = copy;
            let what = format!("'{}', {} bytes", incoming.shown, show_size(incoming.size));
            let answer = match incoming.keep() {
                Ok((file, replaced)) => {
                    place.stored(file, replaced);
                    say(&format!("fairway serve: {}: stored {what}, verified", peer.address()));
                    if let Some(text) = DeadPaths::of(&peer).text(&peer) {
                        say(&format!("fairway serve: {text}"));
                    }
                    Message::Stored
                }
                Err(error) => {
                    drop(place);
                    Message::Refusal(error.to_string())
                }
            };
            // Whether the file is stored does not depend on whether the client is still connected.
            let _ = mailbox.send(&peer, reply_to, &answer.encode());
        };
        beside(work)
    }
}

/// Runs `work` on a new thread. If no thread can be started, `work` is dropped, and the copy with
/// it.
pub(super) fn beside(work: impl FnOnce() + Send + 'static) -> Result<(), Refusal> {
    match std::thread::Builder::new().name("fairway-file".into()).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::Thread(error)),
    }
}

impl Copy {
    /// Removes the file on another thread, because that waits for the disk. The place is released
    /// afterwards, so that there are no more such threads than places; then the line is printed.
    fn discard(self, line: Option<String>) {
        let Copy { incoming, segment, place, .. } = self;
        // If no thread can be started, they are dropped here.
        let _ = beside(move || {
            drop((segment, incoming));
            drop(place);
            line.into_iter().for_each(|line| say(&line));
        });
    }

    fn answer(&self, mailbox: &Mailbox, message: &Message) -> Result<(), Refusal> {
        Ok(mailbox.send(&self.peer, self.reply_to, &message.encode())?)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Read;

    use super::super::READ_BYTES;
    use super::*;

    /// A file of so many blocks, and a byte.
    fn file(blocks: usize) -> (File, u64) {
        let path =
            std::env::temp_dir().join(format!("fairway-hash-{}-{blocks}", std::process::id()));
        let length = (blocks * READ_BYTES + 1) as u64;
        let file = File::create(&path).and_then(|file| file.set_len(length)).and_then(|()| {
            let file = File::open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        });
        (file.expect("a file"), length)
    }

    #[test]
    fn hashing_ends_when_the_client_has_gone() {
        let (file, length) = file(10);
        let mut hashing = Hashing::new(length);
        let blocks = Cell::new(0);
        let is_wanted = || {
            blocks.set(blocks.get() + 1);
            blocks.get() <= 3
        };
        assert!(matches!(hash_part(&mut hashing, &file, is_wanted), Part::Unwanted));
        assert_eq!(hashing.at, 3 * READ_BYTES as u64, "nothing is read after the third look");
    }

    #[test]
    fn file_is_hashed_in_parts_and_has_the_same_hash() {
        let (file, length) = file(PART_BLOCKS);
        let mut hashing = Hashing::new(length);
        assert!(matches!(hash_part(&mut hashing, &file, || true), Part::More));
        let Part::Last(Message::Hash(found)) = hash_part(&mut hashing, &file, || true) else {
            panic!("the byte after the first part is the last");
        };
        let mut bytes = Vec::new();
        (&file).take(length).read_to_end(&mut bytes).expect("readable");
        assert_eq!(found, xxhash_rust::xxh3::xxh3_128(&bytes).to_be_bytes());
        let mut nothing = Hashing::new(0);
        assert!(matches!(hash_part(&mut nothing, &file, || true), Part::Last(Message::Hash(_))));
    }
}
