//! Queue pairs that share a line, with and without a scheduler.

use super::*;
use fairway_policy::{PolicySpec, Share};
use fairway_wire::roce::ReadFragment;

/// Time of a byte on the line: 1 Gb/s.
const BYTE: Duration = Duration::from_ns(8);
/// Bytes of a packet around its payload.
const AROUND: u64 = 82;
/// Messages that each queue pair has posted at a time.
const DEPTH: u32 = 8;

/// What a queue pair does all the time.
#[derive(Clone, Copy)]
enum Load {
    Writes(u32),
    /// The other side reads; the answers use the line.
    Reads(u32),
    Nothing,
}

/// Queue pairs of one device, whose line is the bottleneck, to another one.
struct Line {
    now: Instant,
    hosts: [RoceDevice; 2],
    regions: [MemoryRegion; 2],
    queues: [CompletionQueueId; 2],
    pairs: Vec<[Qpn; 2]>,
    loads: Vec<Load>,
    /// Payload bytes that have left, by queue pair.
    bytes: Vec<u64>,
}

impl Line {
    fn new(policy: Option<&str>, loads: &[Load]) -> Line {
        let limits = Limits { queue_pairs: 8, ..Limits::default() };
        let profile = Profile { window_packets: 64, ..Profile::default() };
        let mut hosts = [0, 1].map(|seed| RoceDevice::new(&limits, &profile, seed));
        let queues = [0, 1].map(|n: usize| hosts[n].create_completion_queue(1024).unwrap());
        let request =
            MemoryRequest { domain: 3, address: BASE, length: LENGTH, rights: Rights::ALL };
        let regions = [0, 1].map(|n: usize| hosts[n].register(&request).unwrap());
        let mut pairs = Vec::new();
        for _ in loads {
            let pair = [0, 1].map(|n: usize| {
                let config = config(Transport::Rc, [queues[n]; 2]);
                hosts[n].create_queue_pair(&config).unwrap()
            });
            for n in 0..2 {
                let peer = Peer { address: 0, queue_pair: pair[1 - n] };
                let reliability = Reliability { read_depth: 4, ..Reliability::default() };
                connect_granting(&mut hosts[n], pair[n], peer, reliability, Rights::ALL);
            }
            pairs.push(pair);
        }
        let now = Instant::ZERO;
        if let Some(policy) = policy {
            let spec: PolicySpec = policy.parse().unwrap();
            hosts[0].set_scheduler(now, Some(spec.build_scheduler(limits.queue_pairs)));
        }
        let bytes = vec![0; loads.len()];
        Line { now, hosts, regions, queues, pairs, loads: loads.to_vec(), bytes }
    }

    fn share(&mut self, pair: usize, tenant: u16, weight: u16, tenant_weight: u16) {
        let share = Share { tenant, weight, tenant_weight };
        self.hosts[0].set_share(self.pairs[pair][0], share).unwrap();
    }

    fn post(&mut self, pair: usize) {
        let (n, length) = match self.loads[pair] {
            Load::Writes(length) => (0, length),
            Load::Reads(length) => (1, length),
            Load::Nothing => return,
        };
        let remote = RemoteAddress { address: BASE, r_key: self.regions[1 - n].r_key };
        let work = match self.loads[pair] {
            Load::Reads(_) => Work::Read { remote },
            _ => Work::Write { remote, immediate: None },
        };
        let local = LocalRange { segment: self.regions[n].segment, offset: 0, length }.into();
        let (id, signaled, solicited, fence) = (pair as u64, true, false, false);
        let request = WorkRequest { id, work, local, signaled, solicited, fence };
        self.hosts[n].post_send(self.now, self.pairs[pair][n], &request).unwrap();
    }

    fn deliver(&mut self, to: usize, transmit: &Transmit) {
        let (packet, payload) = (transmit.packet, transmit.gather.length());
        let received = Received { source: 0, packet, payload, ecn: Ecn::NotCapable };
        assert_eq!(self.hosts[to].poll_answer(&received), None);
        if let Verdict::Place(Placement { token, .. }) =
            self.hosts[to].handle_packet(self.now, &received)
        {
            self.hosts[to].handle_placed(self.now, token, 0);
        }
    }

    /// Runs for a time. The line carries one packet after the other; everything else takes no time.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now.is_before(end) {
            while let Some(answer) = self.hosts[1].poll_transmit(self.now) {
                self.deliver(0, &answer);
            }
            for n in 0..2 {
                self.hosts[n].handle_timeout(self.now);
                while let Some(done) = self.hosts[n].poll_completion(self.queues[n]) {
                    assert_eq!(done.status, Status::Success);
                    self.post(done.id as usize);
                }
            }
            let Some(transmit) = self.hosts[0].poll_transmit(self.now) else {
                self.now = self.now + Duration::from_us(1);
                continue;
            };
            let payload = u64::from(transmit.gather.length());
            let number = transmit.queue_pair;
            let pair = self.pairs.iter().position(|pair| pair[0] == number).unwrap();
            self.bytes[pair] += payload;
            self.now = self.now + BYTE.times(payload + AROUND);
            self.deliver(1, &transmit);
        }
    }

    /// Bytes of each queue pair in 100 ms, after 100 ms in which rates settle.
    fn measure(&mut self) -> Vec<u64> {
        for pair in 0..self.pairs.len() {
            (0..DEPTH).for_each(|_| self.post(pair));
        }
        self.run(Duration::from_ms(100));
        self.bytes.fill(0);
        self.run(Duration::from_ms(100));
        self.bytes.clone()
    }
}

/// Bytes that the line carries in 100 ms if all packets are full.
const FULL: u64 = 12_500_000 * MTU as u64 / (MTU as u64 + AROUND);

fn assert_parts(bytes: &[u64], parts: &[u64], least: u64) {
    let (sum, whole): (u64, u64) = (bytes.iter().sum(), parts.iter().sum());
    assert!(sum >= FULL * least / 100, "{bytes:?} of {FULL}");
    for (bytes_of, part) in bytes.iter().zip(parts) {
        let expected = sum * part / whole;
        assert!(bytes_of.abs_diff(expected) <= expected / 20, "{bytes:?} as {parts:?}");
    }
}

const SMALL: Load = Load::Writes(4096);
const LARGE: Load = Load::Writes(1 << 20);

#[test]
fn turns_of_round_robin_are_as_the_weights_whatever_the_messages() {
    for (loads, weights) in
        [([SMALL, LARGE], [1, 1]), ([SMALL, LARGE], [1, 3]), ([LARGE; 2], [4, 1])]
    {
        let mut line = Line::new(Some("sched=drr:quantum=8K"), &loads);
        for (pair, weight) in weights.into_iter().enumerate() {
            line.share(pair, 0, weight, 0);
        }
        let bytes = line.measure();
        assert_parts(&bytes, &weights.map(u64::from), 99);
    }
}

#[test]
fn dequeue_rates_are_kept_and_water_filling_gives_away_what_is_not_used() {
    let mut line = Line::new(Some("sched=static:line=1Gbps"), &[SMALL, LARGE, LARGE]);
    line.share(2, 0, 2, 0);
    assert_parts(&line.measure(), &[1, 1, 2], 92);
    let mut line = Line::new(Some("sched=water-filling:line=1Gbps"), &[SMALL, LARGE, LARGE]);
    line.share(2, 0, 2, 0);
    assert_parts(&line.measure(), &[1, 1, 2], 92);
    let rate = line.hosts[0].dequeue_rate(line.pairs[2][0]).unwrap();
    assert!((60_000_000..65_000_000).contains(&rate), "{rate}");
    // The others end.
    line.loads = vec![Load::Nothing, Load::Nothing, LARGE];
    line.run(Duration::from_ms(400));
    line.bytes.fill(0);
    line.run(Duration::from_ms(100));
    assert!(line.bytes[2] >= FULL * 92 / 100, "{:?} of {FULL}", line.bytes);
}

#[test]
fn tenants_share_the_line_before_their_queue_pairs() {
    let mut line = Line::new(Some("sched=drr:quantum=4K"), &[LARGE, SMALL, LARGE]);
    line.share(0, 7, 1, 1);
    line.share(1, 8, 1, 2);
    line.share(2, 8, 3, 2);
    assert_parts(&line.measure(), &[4, 2, 6], 99);
}

#[test]
fn answers_to_reads_count_as_what_their_queue_pair_sends() {
    let loads = [Load::Reads(1 << 16), LARGE, Load::Reads(4096)];
    let mut line = Line::new(Some("sched=drr:quantum=8K"), &loads);
    line.share(0, 0, 4, 0);
    line.share(1, 0, 2, 0);
    assert_parts(&line.measure(), &[4, 2, 1], 99);
}

#[test]
fn hints_are_weights_where_the_policy_says_so() {
    let mut line = Line::new(Some("sched=drr:quantum=8K:hints=weight"), &[SMALL, LARGE]);
    let number = line.pairs[0][0];
    line.hosts[0].set_hint(number, 3).unwrap();
    assert_parts(&line.measure(), &[3, 1], 99);
}

#[test]
fn a_share_is_changed_and_the_scheduler_replaced_while_queue_pairs_send() {
    let mut line = Line::new(None, &[SMALL, LARGE]);
    line.measure();
    let spec: PolicySpec = "sched=drr:quantum=8K".parse().unwrap();
    line.hosts[0].set_scheduler(line.now, Some(spec.build_scheduler(8)));
    line.share(1, 0, 2, 0);
    let next = |line: &mut Line| {
        line.bytes.fill(0);
        line.run(Duration::from_ms(100));
        line.bytes.clone()
    };
    assert_parts(&next(&mut line), &[1, 2], 99);
    line.share(0, 0, 2, 0);
    assert_parts(&next(&mut line), &[1, 1], 99);
    let number = line.pairs[0][0];
    let weightless = Share { weight: 0, ..Share::default() };
    assert_eq!(line.hosts[0].set_share(number, weightless), Err(SetupError::Parameter("weight")));
    line.hosts[0].set_scheduler(line.now, None);
    assert_eq!(line.hosts[0].scheduler_stats(), None);
    assert!(next(&mut line).iter().sum::<u64>() >= FULL * 99 / 100);
}

#[test]
fn acknowledgements_do_not_wait_for_the_dequeue_rate() {
    let mut line = Line::new(Some("sched=static:line=8Mbps"), &[LARGE]);
    (0..DEPTH).for_each(|_| line.post(0));
    line.run(Duration::from_ms(10));
    // The gate of the queue pair is shut, and its peer writes to it.
    let number = line.pairs[0][1];
    let remote = RemoteAddress { address: BASE, r_key: line.regions[0].r_key };
    let work = Work::Write { remote, immediate: None };
    let local = LocalRange { segment: line.regions[1].segment, offset: 0, length: 8 }.into();
    let request =
        WorkRequest { id: 9, work, local, signaled: true, solicited: false, fence: false };
    assert_eq!(line.hosts[0].poll_transmit(line.now), None);
    line.hosts[1].post_send(line.now, number, &request).unwrap();
    let write = line.hosts[1].poll_transmit(line.now).unwrap();
    line.deliver(0, &write);
    let answer = line.hosts[0].poll_transmit(line.now).unwrap();
    assert!(matches!(answer.packet.operation, Operation::Acknowledge(_)), "{answer:?}");
}

#[test]
fn what_is_behind_a_held_answer_is_not_acknowledged_before_it() {
    let mut line = Line::new(Some("sched=static:line=8Mbps"), &[Load::Reads(1 << 15)]);
    line.post(0);
    let number = line.pairs[0][1];
    let remote = RemoteAddress { address: BASE + (1 << 19), r_key: line.regions[0].r_key };
    let work = Work::Write { remote, immediate: None };
    let local = LocalRange { segment: line.regions[1].segment, offset: 0, length: 8 }.into();
    let request =
        WorkRequest { id: 0, work, local, signaled: true, solicited: false, fence: false };
    line.hosts[1].post_send(line.now, number, &request).unwrap();
    let mut sent = Vec::new();
    while let Some(packet) = line.hosts[1].poll_transmit(line.now) {
        line.deliver(0, &packet);
    }
    // 32 KiB take 35 ms.
    for _ in 0..100_000 {
        line.now = line.now + Duration::from_us(1);
        line.hosts[0].handle_timeout(line.now);
        sent.extend(core::iter::from_fn(|| line.hosts[0].poll_transmit(line.now)));
    }
    let (last, answers) = sent.split_last().unwrap();
    assert!(matches!(last.packet.operation, Operation::Acknowledge(_)), "{last:?}");
    assert_eq!(answers.len() as u32, (1 << 15) / MTU);
    let is_last =
        |fragment: &Operation| matches!(fragment, Operation::ReadResponse(ReadFragment::Last(_)));
    assert_eq!(answers.iter().filter(|one| is_last(&one.packet.operation)).count(), 4);
}

#[test]
fn a_queue_pair_that_ends_leaves_its_share_to_the_others() {
    let mut line = Line::new(Some("sched=static:line=1Gbps"), &[LARGE, LARGE]);
    line.measure();
    let number = line.pairs[0][0];
    line.hosts[0].destroy_queue_pair(number).unwrap();
    line.bytes.fill(0);
    line.run(Duration::from_ms(100));
    assert!(line.bytes[1] >= FULL * 92 / 100, "{:?} of {FULL}", line.bytes);
}

#[test]
fn queue_pair_that_waits_for_its_rate_takes_up_a_higher_one_at_once() {
    let mut line = Line::new(Some("sched=static:line=80Mbps"), &[SMALL, SMALL]);
    // 0.8 Mb/s of 80: a packet of the first takes 11 ms.
    line.share(0, 0, 1, 0);
    line.share(1, 0, 99, 0);
    for pair in 0..2 {
        (0..DEPTH).for_each(|_| line.post(pair));
    }
    // Until the second begins, the first has the line for itself.
    line.run(Duration::from_us(4000));
    let before = line.bytes[0];
    line.run(Duration::from_us(500));
    assert_eq!(line.bytes[0], before, "it waits");
    // 79 Mb/s: a hundredth of the wait is left, and then 9.9 bytes leave in a microsecond.
    line.share(0, 0, 9900, 0);
    line.run(Duration::from_us(450));
    let sent = line.bytes[0] - before;
    assert!(sent >= 2 * MTU as u64, "{sent}");
}
