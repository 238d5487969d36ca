//! The sending side of a file copy.

use std::time::{Duration, Instant};

use fairway::{Context, Error, JettyOptions, Memory, Peer, Rights, Segment, SegmentKey, Status};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::Hashing;
use super::message::{JETTY, MESSAGE_BYTES, Message};
use super::source::Source;
use crate::args::CopyOptions;
use crate::failure::Failure;
use crate::mailbox::Mailbox;
use crate::net::SERVE;
use crate::outcome::Reason;
use crate::paths::{DeadPaths, LOOK_EVERY, Progress, STANDSTILL, Watch, crossed};
use crate::printable::printable_reason;
use crate::process;

/// Bytes of one WRITE.
const WRITE_BYTES: u64 = 1 << 20;
/// Number of outstanding WRITEs.
const DEPTH: u64 = 16;
/// Longest time that the server may take to allocate space, to hash, or to make the file durable.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Interval of the checks for an interruption.
const STEP: Duration = Duration::from_millis(100);

/// Runs `fairway copy`.
pub(crate) fn copy(options: &CopyOptions) -> Result<(), Failure> {
    options.net.check()?;
    let (server, name) = target(&options.target)?;
    let source = Source::open(&options.source)?;
    // Until there is a connection the server has made nothing, and a signal ends the process.
    let (context, peer) = options.net.connect(server, &SERVE, &options.connection)?;
    process::catch_signals();
    let mailbox = Mailbox::new(&context, None, MESSAGE_BYTES)?;
    let client = Client { context, peer, mailbox, overwrite: options.overwrite };
    let result = client.copy(&source, name, options);
    if result.is_err() {
        // Without this message, the server would keep the file until it times out this client.
        let _ = client.send(&Message::Abort);
    }
    let _ = client.context.shutdown(Duration::from_secs(1));
    let times = result?;
    let gbps = |seconds: f64| 8.0 * source.size as f64 / seconds.max(1e-9) / 1e9;
    let (moved, stored) = (times.moved.as_secs_f64(), times.stored.as_secs_f64());
    if options.json {
        let row = json!({
            "bytes": source.size,
            "seconds": moved,
            "gbps": gbps(moved),
            "seconds_stored": stored,
            "paths": client.peer.paths(),
            "packets_resent": client.context.counters().engine.data_resent,
            "hash": times.hash,
            "verified": true,
            "paths_dead": times.dead_paths.json(),
        });
        return process::print(&format!("{row}\n"));
    }
    process::print(&format!(
        "{} bytes in {moved:.3} s, {:.2} Gb/s over {} paths; verified (XXH3 {}) and stored after \
         {stored:.3} s\n",
        source.size,
        gbps(moved),
        client.peer.paths(),
        times.hash,
    ))?;
    if let Some(text) = times.dead_paths.text(&client.peer) {
        process::say(&format!("fairway copy: {text}"));
    }
    Ok(())
}

/// Splits the target into the server and the name of the file there.
fn target(text: &str) -> Result<(&str, &str), Failure> {
    match text.split_once('/') {
        Some((server, name)) if !server.is_empty() && !name.is_empty() => Ok((server, name)),
        _ => Err(Failure::usage(format!(
            "'{text}' names no file on a server: write HOST[:PORT]/NAME, as storage1/big.img"
        ))),
    }
}

/// Times since the first message, and the hash that both sides agree on.
struct Times {
    moved: Duration,
    stored: Duration,
    hash: String,
    dead_paths: DeadPaths,
}

struct Client {
    context: Context,
    peer: Peer,
    mailbox: Mailbox,
    /// Whether a file of that name may exist on the server.
    overwrite: bool,
}

impl Client {
    fn copy(&self, source: &Source, name: &str, options: &CopyOptions) -> Result<Times, Failure> {
        let name = name.as_bytes().to_vec();
        let (size, mode, overwrite) = (source.size, source.mode, options.overwrite);
        let start = Instant::now();
        let reply =
            self.request(&Message::Open { size, mode, overwrite, name }, "room for the file")?;
        let Message::Opened { key } = reply else { return Err(refused(reply)) };
        if size > 0 {
            let segment = self.context.register(self.map(source)?, Rights::NONE)?;
            self.write((&segment, size), key, options)?;
        }
        let moved = start.elapsed();
        self.send(&Message::Done)?;
        // Both sides hash at the same time.
        let hash = self.hash(source)?;
        let reply = self.answer("hash of the copy")?;
        let Message::Hash(theirs) = reply else { return Err(refused(reply)) };
        if theirs != hash {
            return Err(changed());
        }
        self.send(&Message::Commit)?;
        // Whether the file is stored is the server's decision from here on, so its answer is
        // waited for even after a signal.
        let awaited = "word that the file is stored";
        let bytes = self.mailbox.answer(&self.peer, awaited, TIMEOUT)?;
        let reply = Message::decode(&bytes)?;
        let Message::Stored = reply else { return Err(refused(reply)) };
        let hash = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let dead_paths = DeadPaths::of(&self.peer);
        Ok(Times { moved, stored: start.elapsed(), hash, dead_paths })
    }

    /// Maps the source, which may have become longer since its length was read.
    fn map(&self, source: &Source) -> Result<Memory, Failure> {
        let size = source.size;
        match Memory::map_file(&source.file, false) {
            Ok(memory) if memory.len() as u64 >= size => Ok(memory),
            Ok(memory) => Err(self.shortened(size, memory.len() as u64)),
            // A file without bytes can't be mapped.
            Err(_) if source.file.metadata().is_ok_and(|now| now.len() == 0) => {
                Err(self.shortened(size, 0))
            }
            Err(error) => Err(Error::from(error).into()),
        }
    }

    /// Hashes the bytes that were copied.
    fn hash(&self, source: &Source) -> Result<[u8; 16], Failure> {
        let mut hashing = Hashing::new(source.size);
        loop {
            let block = hashing.block(&source.file);
            let failed = |error| Failure::io("read the source once more", &error);
            if let Some(hash) = block.map_err(failed)? {
                return Ok(hash);
            }
            self.check_signals()?;
        }
    }

    /// Writes the first `size` bytes of the segment, several pieces at a time.
    fn write(
        &self,
        (segment, size): (&Segment, u64),
        key: SegmentKey,
        options: &CopyOptions,
    ) -> Result<(), Failure> {
        let jetty = self.context.create_jetty(JettyOptions::default().depth(2 * DEPTH as u32))?;
        let bar = progress(size, options.json);
        let (mut posted, mut done, mut in_flight) = (0, 0, 0);
        let (mut completions, begun) = (Vec::new(), Instant::now());
        let (watch, mut progress) = (Watch::new(&self.peer), Progress::new(begun));
        while done < size {
            while in_flight < DEPTH && posted < size {
                let end = (posted + WRITE_BYTES).min(size);
                let local = segment.slice(posted..end);
                match jetty.write(&self.peer, local, key.at(posted), end - posted) {
                    Ok(_) => (in_flight, posted) = (in_flight + 1, end),
                    // The WRITEs under way complete with the reason.
                    Err(Error::PeerGone { .. }) if in_flight > 0 => break,
                    Err(Error::PeerGone { .. }) => return Err(self.lost(Status::PeerClosed)),
                    Err(error) => return Err(error.into()),
                }
            }
            if jetty.poll(&mut completions) == 0 {
                completions.extend(jetty.wait(STEP).ok());
            }
            for completion in completions.drain(..) {
                if completion.status != Status::Success {
                    return Err(self.lost(completion.status));
                }
                in_flight -= 1;
                done += completion.id.value();
                progress.note(Instant::now());
            }
            bar.set_position(done);
            self.check_signals()?;
            if done == 0
                && begun.elapsed() > LOOK_EVERY
                && let Some(failure) = watch.black_hole(&self.peer, size, begun.elapsed())
            {
                return Err(failure);
            }
            let crossed = || crossed(&self.context, &self.peer);
            if progress.standstill(Instant::now(), crossed) >= STANDSTILL {
                return Err(self.failed(&format!(
                    "nothing has arrived there for {STANDSTILL:?}: look what became of the server \
                     and the network, and copy again"
                )));
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Explains the status of a WRITE that has failed.
    fn lost(&self, status: Status) -> Failure {
        match Reason::of(&self.context, &self.peer, status) {
            Reason::Status(Status::LocalMemory) => self.failed(
                "the source can't be read to its end: look whether it has become shorter or its \
                 disk fails, and copy again",
            ),
            Reason::Status(Status::RemoteAccess | Status::RemoteRights) => self.failed(
                "the server takes no more of the file: look whether it was stopped or its disk \
                 fails, and copy again",
            ),
            reason => self.failed(&reason.text()),
        }
    }

    /// Fails if a signal has requested the end of the process.
    fn check_signals(&self) -> Result<(), Failure> {
        match process::stopping() {
            true => Err(Failure::failed(format!("interrupted: {}", self.what_is_left()))),
            false => Ok(()),
        }
    }

    fn shortened(&self, size: u64, now: u64) -> Failure {
        Failure::failed(format!(
            "the source has become shorter: it had {size} bytes at the start, and has {now}: copy \
             it again once it stays as it is; {}",
            self.what_is_left()
        ))
    }

    fn failed(&self, why: &str) -> Failure {
        let (server, left) = (self.peer.address(), self.what_is_left());
        Failure::failed(format!("writing to {server} failed: {why}; {left}"))
    }

    /// What the server has under the file's name after a failure.
    fn what_is_left(&self) -> &'static str {
        match self.overwrite {
            false => "nothing is left on the server under that name",
            true => "if the server has a file of that name, it is as it was",
        }
    }

    fn send(&self, message: &Message) -> Result<(), Failure> {
        self.mailbox.send(&self.peer, JETTY, &message.encode())
    }

    /// Waits for the server's answer, or a signal.
    fn answer(&self, awaited: &str) -> Result<Message, Failure> {
        let check = || self.check_signals();
        let bytes = self.mailbox.answer_while(&self.peer, awaited, TIMEOUT, check)?;
        Ok(Message::decode(&bytes)?)
    }

    fn request(&self, message: &Message, awaited: &str) -> Result<Message, Failure> {
        self.send(message)?;
        self.answer(awaited)
    }
}

fn refused(message: Message) -> Failure {
    match message {
        Message::Refusal(reason) => {
            let reason = printable_reason(reason.as_ref());
            Failure::failed(format!("the server refuses: {reason}"))
        }
        _ => Failure::failed("the server sent an unexpected message: run the same release on both"),
    }
}

fn changed() -> Failure {
    Failure::failed(
        "verification failed: the copy differs from the source. If the source was not changed \
         meanwhile, memory or transport are broken: report it. Nothing was stored",
    )
}

/// A progress bar on standard error, if that is a terminal.
fn progress(bytes: u64, hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let template = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}
