//! Two NICs, one wire in each direction, a virtual clock, and a test that decides the fate of each
//! packet.
#![allow(dead_code, missing_docs)]

use fairway_device::drive::{Driver, Memory, Outcome};
use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{Cna, Duration, Ecn, Instant, JettyId, Msn, Packet, Psn, header_len};
use fairway_ub::{
    ChannelConfig, ChannelId, Completion, CompletionQueueId, Event, JettyConfig, Limits,
    LocalRange, OrderRequest, Profile, ReceiveRequest, Received, RemoteRange, Rights, SegmentId,
    SegmentRequest, Transmit, UbDevice, Verdict, Work, WorkRequest,
};
use std::collections::BTreeMap;

/// Fate of a packet.
pub enum Fate {
    Deliver,
    Lose,
    /// The packet's payload is cut off.
    Trim,
    /// The packet takes this much longer.
    Delay(Duration),
}

pub struct Settings {
    pub limits: Limits,
    pub profile: Profile,
    pub policies: &'static str,
    pub mtu: u32,
    pub paths: u32,
    pub first_psn: u32,
    pub memory: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: Limits::default(),
            profile: Profile::default(),
            policies: "",
            mtu: 4096,
            paths: 1,
            first_psn: 1000,
            memory: 1 << 20,
        }
    }
}

/// A packet in flight: its receiver, the packet, and its payload unless that was cut off.
type InFlight = (usize, Received, Option<Vec<u8>>);

pub struct Pair {
    pub now: Instant,
    pub drivers: [Driver<UbDevice, Vec<u8>>; 2],
    pub memory: [Bytes; 2],
    pub channels: [ChannelId; 2],
    pub segments: [SegmentId; 2],
    pub jetties: [JettyId; 2],
    /// Every packet that was sent, with its sender.
    pub log: Vec<(usize, Packet)>,
    queues: [CompletionQueueId; 2],
    wire: BTreeMap<(u64, u64), InFlight>,
    free_at: [Instant; 2],
    eager: [bool; 2],
    sequence: u64,
}

/// Latency in one direction, without the time of the bytes.
pub const LATENCY: Duration = Duration::from_us(10);
/// 10 Gbit/s.
const BYTE_TIME: Duration = Duration::from_ps(800);
pub const TOKEN: u32 = 0xFA12_3A59;
pub const ADDRESS: u64 = 0x1000_0000;

impl Pair {
    pub fn new(settings: &Settings) -> Pair {
        let now = Instant::from_ns(1);
        let cna = [Cna::new(0xA), Cna::new(0xB)];
        let mut nics = cna
            .map(|cna| UbDevice::new(cna, &settings.limits, &settings.profile, cna.value().into()));
        let channels = [0, 1].map(|n: usize| nics[n].reserve_channel().unwrap());
        for n in 0..2 {
            let spec: PolicySpec = settings.policies.parse().unwrap();
            let first = [Psn::new(settings.first_psn), Psn::new(settings.first_psn + 5)];
            let config = ChannelConfig {
                leader: None,
                engine: 0,
                remote: cna[1 - n],
                remote_tpn: channels[1 - n].tpn(),
                first_psn: first[n],
                remote_first_psn: first[1 - n],
                first_message: Msn::new(0),
                unreliable: true,
                bypass: true,
                parts: true,
                retires: true,
                carried_acks: true,
                mtu: settings.mtu,
                paths: settings.paths,
                remote_window: settings.limits.receive_window(),
                remote_message_slots: settings.limits.message_slots,
                remote_read_slots: settings.limits.read_slots,
                policy: spec.build(settings.mtu),
            };
            nics[n].open_channel(now, channels[n], config).unwrap();
        }
        let segments = [0, 1].map(|n: usize| {
            let length = settings.memory as u64;
            let rights = Rights::READ_WRITE;
            let request = SegmentRequest { address: ADDRESS, length, rights, token_value: TOKEN };
            nics[n].register(&request).unwrap()
        });
        let queues = [0, 1].map(|n: usize| nics[n].create_completion_queue(64).unwrap());
        let jetties = [0, 1].map(|n: usize| {
            let queue = queues[n];
            let config = JettyConfig { number: Some(3), ..JettyConfig::new(queue, queue) };
            nics[n].create_jetty(&config).unwrap()
        });
        let bytes = |n: usize| (0..settings.memory).map(move |i| (i * 31 + i / 253 + n * 97) as u8);
        Pair {
            now,
            drivers: nics.map(|nic| Driver::new(nic, 0)),
            memory: [0, 1].map(|n| Bytes { segment: segments[n], bytes: bytes(n).collect() }),
            channels,
            segments,
            jetties,
            log: Vec::new(),
            queues,
            wire: BTreeMap::new(),
            free_at: [now; 2],
            eager: [true; 2],
            sequence: 0,
        }
    }

    /// Returns the other side's segment from `offset` on.
    pub fn remote(&self, from: usize, offset: u64) -> RemoteRange {
        RemoteRange {
            token_id: self.segments[1 - from].token_id(),
            token_value: TOKEN,
            address: ADDRESS + offset,
        }
    }

    /// Posts `work` on the first `length` bytes of `from`'s segment.
    pub fn post(&mut self, from: usize, id: u64, work: Work, length: u32) {
        let local = LocalRange { segment: self.segments[from], offset: 0, length };
        let channel = self.channels[from];
        let request = WorkRequest {
            id,
            channel,
            work,
            local,
            signaled: true,
            order: OrderRequest::default(),
        };
        let nic = self.drivers[from].device_mut();
        nic.post(self.now, self.jetties[from], &request).unwrap();
        self.eager[from] = true;
    }

    /// Posts a receive for `length` bytes at `offset`.
    pub fn post_receive(&mut self, at: usize, id: u64, offset: u64, length: u32) {
        let local = LocalRange { segment: self.segments[at], offset, length };
        let request = ReceiveRequest { id, local };
        self.drivers[at].device_mut().post_receive(self.jetties[at], &request).unwrap();
    }

    /// Makes both NICs check for packets to send, after a command.
    pub fn wake(&mut self) {
        self.eager = [true; 2];
    }

    pub fn completions(&mut self, at: usize) -> Vec<Completion> {
        let queue = self.queues[at];
        std::iter::from_fn(|| self.drivers[at].device_mut().poll_completion(queue)).collect()
    }

    pub fn events(&mut self, at: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.drivers[at].device_mut().poll_event()).collect()
    }

    /// Runs until the first completion at `at`, which must come before `timeout` is over.
    pub fn complete(
        &mut self,
        at: usize,
        timeout: Duration,
        fate: &mut dyn FnMut(&Pair, usize, &Transmit) -> Fate,
    ) -> Completion {
        let end = self.now + timeout;
        let queue = self.queues[at];
        loop {
            if let Some(completion) = self.drivers[at].device_mut().poll_completion(queue) {
                return completion;
            }
            let went_on = self.step(end, fate);
            assert!(went_on, "no completion within {} us", timeout.as_us());
        }
    }

    /// Runs for `span`.
    pub fn run(&mut self, span: Duration, fate: &mut dyn FnMut(&Pair, usize, &Transmit) -> Fate) {
        let end = self.now + span;
        while self.step(end, fate) {}
    }

    /// Executes the next event. Returns false if none is before `end`, and then sets the clock to
    /// `end`.
    fn step(
        &mut self,
        end: Instant,
        fate: &mut dyn FnMut(&Pair, usize, &Transmit) -> Fate,
    ) -> bool {
        for n in 0..2 {
            while self.eager[n] && !self.now.is_before(self.free_at[n]) {
                self.transmit(n, fate);
            }
        }
        let arrival = self.wire.keys().next().map(|&(at, _)| Instant::from_ps(at));
        let sendable = |n: usize| self.eager[n].then_some(self.free_at[n]);
        let times = [arrival, sendable(0), sendable(1)];
        let timers = [0, 1].map(|n: usize| self.drivers[n].poll_timeout());
        let next = times.into_iter().chain(timers).flatten().reduce(Instant::min);
        let Some(next) = next.filter(|next| next.is_before(end)) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.wire.first_entry() {
            if self.now.as_ps() < entry.key().0 {
                break;
            }
            let (to, received, payload) = entry.remove();
            self.arrive(to, &received, payload.as_deref());
        }
        for n in 0..2 {
            if self.drivers[n].handle_time(self.now) {
                self.eager[n] = true;
            }
        }
        true
    }

    fn transmit(&mut self, n: usize, fate: &mut dyn FnMut(&Pair, usize, &Transmit) -> Fate) {
        let Some(transmit) = self.drivers[n].poll_transmit(self.now) else {
            self.eager[n] = false;
            return;
        };
        self.log.push((n, transmit.packet));
        let gather = transmit.gather;
        let start = gather.offset as usize;
        let payload = self.memory[n].bytes[start..start + gather.length as usize].to_vec();
        let bytes = header_len(&transmit.packet) + payload.len() + 42;
        self.free_at[n] = self.now.max(self.free_at[n]) + BYTE_TIME.times(bytes as u64);
        let fate = fate(self, n, &transmit);
        let payload = if matches!(fate, Fate::Trim) { None } else { Some(payload) };
        let late = match fate {
            Fate::Deliver | Fate::Trim => Duration::ZERO,
            Fate::Lose => return,
            Fate::Delay(span) => span,
        };
        let at = self.free_at[n] + LATENCY + late;
        let received = Received {
            route: transmit.route,
            packet: transmit.packet,
            payload: gather.length,
            ecn: Ecn::Capable,
            hops: 0,
        };
        self.sequence += 1;
        self.wire.insert((at.as_ps(), self.sequence), (1 - n, received, payload));
    }

    fn arrive(&mut self, to: usize, received: &Received, payload: Option<&[u8]>) {
        self.eager[to] = true;
        let now = self.now;
        let Some(payload) = payload else {
            assert_eq!(self.drivers[to].device_mut().handle_trimmed(now, received), Verdict::Done);
            return;
        };
        let outcome = self.drivers[to].handle_packet(now, received, || payload.to_vec());
        if let Outcome::Access(access) = outcome {
            let old = access.carry_out(&mut self.memory[to]).unwrap();
            self.drivers[to].handle_placed(now, access.token(), old);
        }
        assert!(self.drivers[to].poll_access(now).is_none(), "nothing has to wait for its turn");
    }
}

/// The bytes of a segment.
pub struct Bytes {
    segment: SegmentId,
    pub bytes: Vec<u8>,
}

impl Memory for Bytes {
    type Error = String;

    fn bytes(&mut self, range: &LocalRange) -> Result<&mut [u8], String> {
        assert_eq!(range.segment, self.segment);
        let start = range.offset as usize;
        let bytes = self.bytes.get_mut(start..start + range.length as usize);
        bytes.ok_or_else(|| format!("{range:?} leaves the segment"))
    }
}

/// Delivers every packet.
pub fn fine(_: &Pair, _: usize, _: &Transmit) -> Fate {
    Fate::Deliver
}

/// Loses the first packet from `from` for which `wanted` is true.
pub fn lose_once(
    from: usize,
    wanted: impl Fn(&Packet) -> bool,
) -> impl FnMut(&Pair, usize, &Transmit) -> Fate {
    let mut left = 1;
    move |_, sender, transmit| {
        if left > 0 && sender == from && wanted(&transmit.packet) {
            left -= 1;
            return Fate::Lose;
        }
        Fate::Deliver
    }
}
