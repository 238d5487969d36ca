//! RVMA's experiment (its Fig. 4 to 6): time until the target's program detects that a message has
//! arrived, by kind of notification; and the number of messages over which the set-up of a buffer
//! must be amortised.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairway::{
    Completion, CompletionKind, EpochRecord, Error, Jetty, Mailbox, MailboxAddress, MailboxOptions,
    Order, Post, Rights, Segment, ServiceMode, Status,
};
use serde_json::json;

use super::pair::{Network, Pair, TIMEOUT, jetty, quantile_us, segment};
use super::{Section, failed};
use crate::bench::table::Spread;
use crate::programs::check_signals;

mod setup;

const SIZES: [u64; 7] = [8, 64, 512, 4096, 32 << 10, 256 << 10, 1 << 20];
/// Buffers of the mailbox: one can be filled while the program reads the other.
const BUFFERS: u64 = 2;
const TO: MailboxAddress = MailboxAddress { address: 0x11ff_0011, key: 77, offset: 0, epoch: None };
/// Bytes of a SEND that notifies the target.
const NOTICE_BYTES: u64 = 8;
/// Set-up counts as amortised when it adds no more than this fraction to a message: the paper's
/// margin of error.
const MARGIN: f64 = 0.03;

const NETWORKS: [(Network, bool); 3] = [
    (Network { name: "one path, loopback", paths: 1, spec: "" }, true),
    (Network { name: "one path of 25 us", paths: 1, spec: "delay=25us" }, true),
    (
        Network {
            name: "four paths of 10 to 40 us: packets overtake each other",
            paths: 4,
            spec: "0:delay=10us;1:delay=20us;2:delay=30us;3:delay=40us",
        },
        false,
    ),
];

/// How the target detects that a message has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// The completion record of a mailbox's epoch.
    Record,
    /// A SEND, posted when the WRITE before it has completed: RDMA's rule where packets can be
    /// reordered.
    SendAfter,
    /// The message's last byte: only where packets can't be reordered.
    LastByte,
    /// A strict SEND, posted directly behind a relaxed WRITE: RDMA's rule expressed by UB's order
    /// tags.
    StrictSend,
}

const NOTICES: [Notice; 4] =
    [Notice::Record, Notice::SendAfter, Notice::LastByte, Notice::StrictSend];

/// Results of one size on one network.
struct Row {
    network: Network,
    ordered: bool,
    size: u64,
    /// Times in microseconds, by kind of notification.
    times_us: [Vec<f64>; 4],
    setup_us: Vec<f64>,
    /// Number of messages whose last byte arrived before the first, in all repetitions.
    early: u64,
}

/// Measures all rows in alternation.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let row = |network, ordered, size| {
        let (times_us, setup_us) = Default::default();
        Row { network, ordered, size, times_us, setup_us, early: 0 }
    };
    let mut rows: Vec<Row> = NETWORKS
        .iter()
        .flat_map(|(network, ordered)| SIZES.map(|size| row(*network, *ordered, size)))
        .collect();
    for _ in 0..repeats {
        for row in &mut rows {
            check_signals()?;
            let pair = Pair::new(&row.network)?;
            for (notice, times) in NOTICES.into_iter().zip(&mut row.times_us) {
                if notice != Notice::LastByte || row.ordered {
                    let (time, early) = measure(&pair, notice, row.size, slice / 2)?;
                    times.push(time);
                    row.early += early;
                }
            }
            row.setup_us.push(setup::measure(&pair, row.size)?);
        }
    }
    Ok(section(&rows))
}

/// Shared memory by which the target reports to the sender outside the network.
#[derive(Default)]
struct News {
    /// Number of the message that has arrived.
    number: AtomicU64,
    /// Time of its detection, in nanoseconds from the start.
    at_ns: AtomicU64,
}

/// The median one-way time in microseconds, and the number of messages that were detected too
/// early.
fn measure(pair: &Pair, notice: Notice, size: u64, slice: Duration) -> io::Result<(f64, u64)> {
    let news = News::default();
    let start = Instant::now();
    let mut target = Target::new(pair, notice, size)?;
    let sender = Sender {
        pair,
        notice,
        source: segment(&pair.client, size.max(NOTICE_BYTES), Rights::NONE)?,
        jetty: jetty(&pair.client)?,
        key: target.memory.key(),
        to: target.jetty.number(),
        size,
    };
    let serve = || {
        let Some(number) = target.poll()? else { return Ok(()) };
        news.at_ns.store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        news.number.store(number, Ordering::Release);
        target.again()
    };
    let time = pair.run(serve, || {
        let (mut times, end) = (Vec::new(), Instant::now() + slice);
        for number in 1.. {
            sender.stamp(number).map_err(failed)?;
            let posted = start.elapsed().as_nanos() as u64;
            let open = sender.send()?;
            sender.settle(open, || news.number.load(Ordering::Acquire) == number)?;
            let time = news.at_ns.load(Ordering::Relaxed).saturating_sub(posted);
            times.push(u32::try_from(time).unwrap_or(u32::MAX));
            if Instant::now() > end {
                break;
            }
        }
        // The first samples are dropped, because caches are cold.
        let warm = times.len() / 10;
        Ok(quantile_us(&mut times[warm..], 0.5))
    })?;
    Ok((time, target.early))
}

/// The side that sends messages.
struct Sender<'a> {
    pair: &'a Pair,
    notice: Notice,
    source: Segment,
    jetty: Jetty,
    key: fairway::SegmentKey,
    to: u32,
    size: u64,
}

impl Sender<'_> {
    /// Writes the message's number into its first and last byte.
    fn stamp(&self, number: u64) -> Result<(), Error> {
        let byte = [number as u8];
        self.source.write_at(0, &byte)?;
        self.source.write_at(self.size - 1, &byte)
    }

    /// Posts a message and its notification; returns the number of operations in flight.
    fn send(&self) -> io::Result<u64> {
        let peer = &self.pair.peer;
        let (local, word) = (self.source.slice(0..self.size), self.source.slice(0..NOTICE_BYTES));
        let posted = match self.notice {
            Notice::Record => self.jetty.put(peer, local, TO, 0).map(|()| 1),
            Notice::LastByte => self.jetty.write(peer, local, self.key, 0).map(|()| 1),
            Notice::SendAfter => {
                self.jetty.write(peer, local, self.key, 0).map_err(failed)?;
                self.settle(1, || true)?;
                self.jetty.send(peer, self.to, word, 0).map(|()| 1)
            }
            Notice::StrictSend => {
                let relaxed = self.jetty.ordered(Order::relaxed(ServiceMode::Rot));
                relaxed.write(peer, local, self.key, 0).map_err(failed)?;
                let strict = self.jetty.ordered(Order::strict(ServiceMode::Rot));
                strict.send(peer, self.to, word, 0).map(|()| 2)
            }
        };
        posted.map_err(failed)
    }

    /// Polls until `open` operations have completed and `arrived` returns true.
    fn settle(&self, mut open: u64, arrived: impl Fn() -> bool) -> io::Result<()> {
        let (start, mut completions) = (Instant::now(), Vec::new());
        while open > 0 || !arrived() {
            self.jetty.poll(&mut completions);
            for completion in completions.drain(..) {
                succeeded(&completion)?;
                open -= 1;
            }
            if start.elapsed() > TIMEOUT {
                return Err(io::Error::other(format!("{:?}: a message was lost", self.notice)));
            }
        }
        Ok(())
    }
}

fn succeeded(completion: &Completion) -> io::Result<()> {
    if completion.status == Status::Success {
        return Ok(());
    }
    Err(io::Error::other(format!("an operation ended with {completion:?}")))
}

/// The receiving side.
struct Target<'a> {
    pair: &'a Pair,
    notice: Notice,
    memory: Segment,
    /// Memory for incoming SENDs.
    notices: Segment,
    jetty: Jetty,
    mailbox: Mailbox,
    records: Vec<Arc<EpochRecord>>,
    completions: Vec<Completion>,
    size: u64,
    /// Number of messages so far.
    count: u64,
    /// Number of messages whose last byte arrived before the first.
    early: u64,
}

impl<'a> Target<'a> {
    fn new(pair: &'a Pair, notice: Notice, size: u64) -> io::Result<Self> {
        let options = MailboxOptions::default().address(TO.address).key(TO.key);
        let room = BUFFERS * size.next_multiple_of(64);
        let target = Target {
            pair,
            notice,
            memory: segment(&pair.server, room, Rights::WRITE)?,
            notices: segment(&pair.server, NOTICE_BYTES, Rights::NONE)?,
            jetty: jetty(&pair.server)?,
            mailbox: pair.server.create_mailbox(&options).map_err(failed)?,
            records: (0..BUFFERS).map(|_| Arc::new(EpochRecord::new())).collect(),
            completions: Vec::new(),
            size,
            count: 0,
            early: 0,
        };
        for buffer in 0..BUFFERS {
            target.offer(buffer).map_err(failed)?;
        }
        Ok(target)
    }

    /// Offset of the message with this number.
    fn place(&self, number: u64) -> u64 {
        match self.notice {
            Notice::Record => number % BUFFERS * self.size.next_multiple_of(64),
            _ => 0,
        }
    }

    fn offer(&self, number: u64) -> Result<(), Error> {
        match self.notice {
            Notice::Record => {
                let (start, record) = (self.place(number), number % BUFFERS);
                let buffer = self.memory.slice(start..start + self.size);
                self.mailbox.post_recorded(buffer, record, &self.records[record as usize])
            }
            Notice::SendAfter | Notice::StrictSend => self.jetty.post_receive(&self.notices, 0),
            Notice::LastByte => Ok(()),
        }
    }

    /// The number of the message that has just arrived, if there is one.
    fn poll(&mut self) -> Result<Option<u64>, Error> {
        let next = self.count + 1;
        let here = match self.notice {
            Notice::Record => {
                self.pair.server.poll();
                self.records[(self.count % BUFFERS) as usize].is_done()
            }
            Notice::LastByte => {
                self.pair.server.poll();
                self.last_byte()? == next as u8
            }
            Notice::SendAfter | Notice::StrictSend => {
                self.jetty.poll(&mut self.completions);
                let receives = self.completions.drain(..);
                receives.filter(|end| end.kind == CompletionKind::Receive).count() > 0
            }
        };
        Ok(here.then_some(next))
    }

    /// Whether both ends of the message have arrived.
    fn is_whole(&self) -> Result<bool, Error> {
        let mut first = [0];
        self.memory.read_at(self.place(self.count), &mut first)?;
        let expected = (self.count + 1) as u8;
        Ok((first[0], self.last_byte()?) == (expected, expected))
    }

    fn last_byte(&self) -> Result<u8, Error> {
        let mut byte = [0];
        self.memory.read_at(self.place(self.count) + self.size - 1, &mut byte)?;
        Ok(byte[0])
    }

    /// Checks the message, and prepares for the next one.
    fn again(&mut self) -> Result<(), Error> {
        if !self.is_whole()? {
            assert!(
                self.notice == Notice::LastByte,
                "{:?}: a message was reported before it was there",
                self.notice
            );
            // The lost part is retransmitted and arrives after the last byte.
            self.early += 1;
            while !self.is_whole()? {
                self.pair.server.poll();
            }
        }
        if self.notice == Notice::Record {
            self.records[(self.count % BUFFERS) as usize].clear();
        }
        self.offer(self.count)?;
        self.count += 1;
        Ok(())
    }
}

fn section(rows: &[Row]) -> Section {
    let mut text = String::from(
        "| one-way time, us | size | PUT, completion record | WRITE, then SEND | last byte | WRITE, \
         strict SEND | PUT below WRITE, then SEND | below strict SEND | set-up | messages until set-up \
         is 3 % |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut list = Vec::new();
    for row in rows {
        let spreads = row.times_us.each_ref().map(|samples| Spread::of(samples));
        let [put, send, last, strict] = spreads.map(Option::unwrap_or_default);
        let setup = Spread::of(&row.setup_us).unwrap_or_default();
        let below = |other: Spread| 100.0 * (1.0 - put.median / other.median);
        // The method that RDMA would use here: the last byte where that is allowed.
        let rdma = if row.ordered { last } else { send };
        let messages = (setup.median / (MARGIN * rdma.median)).ceil();
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {:.0} % | {:.0} % | {:.1} | {messages} |\n",
            row.network.name,
            size_name(row.size),
            put.show(),
            send.show(),
            match (row.ordered, row.early) {
                (false, _) => "–".into(),
                (true, 0) => last.show(),
                (true, early) => format!("{} (too early {early} times)", last.show()),
            },
            strict.show(),
            below(send),
            below(strict),
            setup.median,
        );
        list.push(json!({
            "network": row.network.name, "size": row.size, "put_us": row.times_us[0],
            "write_then_send_us": row.times_us[1], "last_byte_us": row.times_us[2],
            "write_strict_send_us": row.times_us[3], "put_below_percent": below(send),
            "setup_us": row.setup_us, "messages_to_amortise": messages,
            "last_byte_too_early": row.early,
        }));
    }
    Section { name: "mailbox", markdown: text, json: list.into() }
}

fn size_name(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}
