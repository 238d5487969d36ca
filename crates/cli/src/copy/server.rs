//! The receiving side of file copies.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use fairway_softnic::wire::Duration as EngineDuration;
use fairway_softnic::{ChannelId, Context, Memory, Peer, Profile, Rights, Segment, SegmentKey};

use super::hash;
use super::incoming::{Directory, Incoming};
use super::limits::{Limits, Lines, Place, Taken};
use super::message::{JETTY, MESSAGE_BYTES, Message};
use super::stale;
use crate::args::ServeOptions;
use crate::failure::Failure;
use crate::mailbox::{Mail, Mailbox};
use crate::net::SERVE;
use crate::paths::DeadPaths;
use crate::process;
use crate::quantity::show_size;

/// How often an idle server looks for clients that have gone, and whether it is to end.
const STEP: Duration = Duration::from_millis(100);
/// Pages of longer files are made as they come, so that no client can take all memory at once.
const POPULATE_BYTES_MAX: u64 = 1 << 30;
/// Keep-alives within the time after which a silent client is dead.
const KEEP_ALIVES: u32 = 6;

/// Runs `fairway serve`.
pub(crate) fn serve(options: &ServeOptions) -> Result<(), Failure> {
    options.net.check()?;
    let shown = options.dir.display();
    let directory = Directory::open(&options.dir)
        .map_err(|error| Failure::io(format!("open the directory '{shown}'"), &error))?;
    process::catch_signals();
    let span = |time: Duration| {
        EngineDuration::from_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 12).max(1))
    };
    let profile = Profile {
        peer_dead: span(options.peer_dead),
        keep_alive: span(options.peer_dead / KEEP_ALIVES),
        ..Profile::default()
    };
    let context = options
        .net
        .builder(SERVE.port, None)
        .profile(profile)
        .unreliable_messages(false)
        .loads_and_stores(false)
        .build()?;
    let mailbox = Arc::new(Mailbox::new(&context, Some(JETTY), MESSAGE_BYTES)?);
    let addresses = context.local_addrs();
    let first = addresses.first().map_or_else(String::new, ToString::to_string);
    process::print(&format!(
        "fairway serve: '{shown}', {} sockets, listening on {first}\n",
        addresses.len()
    ))?;
    // A large tree takes its time, and nothing waits for the end of it.
    let tree = options.dir.clone();
    // Without a thread for it they stay until the next start.
    let _ = std::thread::Builder::new().spawn(move || stale::remove(&tree));
    let (sender, results) = channel();
    let limits = Limits {
        files: options.max_files,
        bytes: options.max_bytes.unwrap_or(u64::MAX),
        keep_free: options.keep_free,
    };
    let lines = Lines::new(Instant::now());
    let (copies, taken) = (HashMap::new(), Arc::new(Taken::default()));
    let mut server =
        Server { context, mailbox, directory, limits, taken, lines, copies, sender, results };
    while !process::stopping() {
        server.turn()?;
    }
    server.copies.clear();
    // Those who are still there are told; whether they answer does not matter any more.
    let _ = server.context.shutdown(Duration::from_millis(500));
    Ok(())
}

struct Server {
    context: Context,
    mailbox: Arc<Mailbox>,
    directory: Directory,
    limits: Limits,
    taken: Arc<Taken>,
    /// Of refusals, in the log.
    lines: Lines,
    /// What is arriving, by client. A client copies one file at a time.
    copies: HashMap<ChannelId, Copy>,
    sender: Sender<Copy>,
    /// Copies whose hash has been sent.
    results: Receiver<Copy>,
}

/// A file that is arriving.
struct Copy {
    peer: Peer,
    /// The client's Jetty for our messages.
    reply_to: u32,
    incoming: Incoming,
    /// The file's pages, as long as the client may write them.
    segment: Option<Segment>,
    /// The client has been told the hash.
    hashed: bool,
    /// Given back when the file is stored or gone.
    _place: Place,
}

impl Server {
    fn turn(&mut self) -> Result<(), Failure> {
        let mail = self.mail()?;
        let _ = self.context.poll_events();
        for copy in self.results.try_iter() {
            self.copies.insert(copy.peer.channel(), copy);
        }
        let mut gone = Vec::new();
        self.copies.retain(|_, copy| {
            let alive = copy.peer.is_alive();
            if !alive {
                gone.push((copy.peer.address(), copy.incoming.shown.clone()));
            }
            alive
        });
        // Only now are the files gone as well.
        for (client, name) in gone {
            eprintln!("fairway serve: {client}: '{name}' dropped: the client has gone");
        }
        if let Some(Mail { peer: Some(peer), sender, bytes }) = mail {
            self.handle(&peer, sender, &bytes);
        }
        Ok(())
    }

    /// A message, if one comes in a moment. While files are being written the wait is a busy one:
    /// whoever polls moves the packets, and this side has nothing else to do.
    fn mail(&self) -> Result<Option<Mail>, Failure> {
        if self.copies.values().all(|copy| copy.segment.is_none()) {
            return self.mailbox.wait(STEP);
        }
        let until = Instant::now() + STEP;
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
                // What it was sending before is dropped.
                self.copies.remove(&channel);
                self.limits.admit(&self.taken, size).and_then(|place| {
                    let keep_free = self.limits.keep_free;
                    let incoming =
                        self.directory.create(&name, size, mode, overwrite, keep_free)?;
                    self.open(peer, reply_to, incoming, place)
                })
            }
            Ok(Message::Done) => self.done(channel),
            Ok(Message::Commit) => self.commit(channel),
            Ok(Message::Abort) => {
                self.copies.remove(&channel);
                Ok(())
            }
            Ok(_) => Err("the client sent what makes no sense now".into()),
            Err(error) => Err(error),
        };
        if let Err(reason) = result {
            self.copies.remove(&channel);
            if let Some(left_out) = self.lines.admit(Instant::now()) {
                if left_out > 0 {
                    eprintln!("fairway serve: {left_out} refusals more, which are not shown");
                }
                eprintln!("fairway serve: {}: refused: {reason}", peer.address());
            }
            // A client that has gone needs no answer.
            let _ = self.mailbox.send(peer, reply_to, &Message::Refusal(reason).encode());
        }
    }

    fn open(
        &mut self,
        peer: &Peer,
        reply_to: u32,
        incoming: Incoming,
        place: Place,
    ) -> Result<(), String> {
        let text = |error: fairway_softnic::Error| error.to_string();
        let mut key = SegmentKey { token_id: 0, token_value: 0, address: 0, length: 0 };
        let mut segment = None;
        if incoming.size > 0 {
            let memory = Memory::map_file(&incoming.file, true).map_err(text)?;
            let registered = self.context.register(memory, Rights::WRITE).map_err(text)?;
            if incoming.size <= POPULATE_BYTES_MAX {
                populate(&registered);
            }
            key = registered.key();
            segment = Some(registered);
        }
        let copy =
            Copy { peer: peer.clone(), reply_to, incoming, segment, hashed: false, _place: place };
        let (shown, size) = (&copy.incoming.shown, show_size(copy.incoming.size));
        eprintln!("fairway serve: {}: receiving '{shown}', {size} bytes", peer.address());
        copy.answer(&self.mailbox, &Message::Opened { key })?;
        self.copies.insert(peer.channel(), copy);
        Ok(())
    }

    /// Hashes the file, meanwhile serving others.
    fn done(&mut self, channel: ChannelId) -> Result<(), String> {
        let mut copy = self.copies.remove(&channel).ok_or("no copy is going on")?;
        // What is hashed from now on can't be written any more.
        copy.segment = None;
        let (mailbox, sender) = (Arc::clone(&self.mailbox), self.sender.clone());
        let work = move || {
            let answer = match hash(&copy.incoming.file, copy.incoming.size) {
                Ok(hash) => Message::Hash(hash),
                Err(error) => Message::Refusal(format!("could not read the file back: {error}")),
            };
            copy.hashed = matches!(answer, Message::Hash(_));
            let (peer, reply_to) = (copy.peer.clone(), copy.reply_to);
            // Handed back first: the client's answer must find it.
            if sender.send(copy).is_ok() {
                let _ = mailbox.send(&peer, reply_to, &answer.encode());
            }
        };
        beside(work)
    }

    /// Stores the file, meanwhile serving others.
    fn commit(&mut self, channel: ChannelId) -> Result<(), String> {
        let copy = self.copies.remove(&channel).ok_or("no copy is going on")?;
        if !copy.hashed {
            return Err("the file has not been compared yet".into());
        }
        let mailbox = Arc::clone(&self.mailbox);
        let work = move || {
            let Copy { peer, reply_to, incoming, _place, .. } = copy;
            let what = format!("'{}', {} bytes", incoming.shown, show_size(incoming.size));
            let answer = match incoming.keep() {
                Ok(()) => {
                    eprintln!("fairway serve: {}: stored {what}, verified", peer.address());
                    if let Some(text) = DeadPaths::of(&peer).text(&peer) {
                        eprintln!("fairway serve: {text}");
                    }
                    Message::Stored
                }
                Err(error) => Message::Refusal(error),
            };
            // It is stored, or not, whether the client is still there or not.
            let _ = mailbox.send(&peer, reply_to, &answer.encode());
        };
        beside(work)
    }
}

/// Runs something on a thread of its own. If there is none, it is dropped, and the copy with it.
fn beside(work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    match std::thread::Builder::new().name("fairway-file".into()).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the server has no thread for it ({error}): try again later")),
    }
}

impl Copy {
    fn answer(&self, mailbox: &Mailbox, message: &Message) -> Result<(), String> {
        mailbox
            .send(&self.peer, self.reply_to, &message.encode())
            .map_err(|failure| failure.to_string())
    }
}

/// Makes all pages at once, which takes a fraction of making each when the first packet for it
/// arrives. Without it (before Linux 5.14) it is only slower.
fn populate(segment: &Segment) {
    // SAFETY: the range is the segment's whole mapping, which lives as long as the segment; making
    // pages present changes no byte of them.
    unsafe {
        let start = segment.as_ptr().cast();
        libc::madvise(start, segment.len() as usize, libc::MADV_POPULATE_WRITE);
    }
}
