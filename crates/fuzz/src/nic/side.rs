//! One of the two NICs, with memory, Jetties and a mailbox, and the actions of its application.

use std::sync::OnceLock;

use fairway_device::drive::Driver;
use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{
    AtomicOperator, Cna, Duration, Instant, JettyId, Msn, Psn, ServiceMode, Tag, Target, TokenId,
};
use fairway_ub::{
    ChannelConfig, ChannelId, CompletionKind, CompletionQueueId, Dispatch, ExceptionMode,
    GroupConfig, JettyConfig, JettyState, Limits, LocalRange, MailboxConfig, MailboxId,
    OrderRequest, Profile, ReceiveRequest, RemoteMailbox, RemoteRange, Rights, SegmentRequest,
    Status, Steering, Threshold, UbDevice, Usage, WhenEmpty, Work, WorkRequest,
};

use crate::books::{Books, Loan, Memory, Piece};
use crate::script::Script;

pub(super) const MTU: u32 = 64;
/// First sequence numbers, shortly before they wrap.
pub(super) const FIRST_PSN: [Psn; 2] = [Psn::new(0xff_fff0), Psn::new(0xff_ff00)];
pub(super) const TOKEN: u32 = 0xFA12_3A59;
/// The key that peers do not have.
pub(super) const SECRET: u32 = 0x5ec2_e700;
pub(super) const MAILBOX: u64 = 7;
pub(super) const JETTIES: u32 = 2;
/// Number of the group of both Jetties.
const GROUP: JettyId = JettyId::new(JETTIES);
/// Number of engines; each channel of the group has one.
pub(super) const ENGINES: u32 = 2;

const OPEN_BYTES: u64 = 1024;
const OWN_BYTES: u64 = 2048;
/// Bit in the number of an operation that reports failures only and is not tracked.
const SILENT: u64 = 1 << 32;

pub(super) const LIMITS: Limits = Limits::new()
    .channels(2)
    .engines(ENGINES)
    .jetties(4)
    .segments(8)
    .completion_queues(2)
    .completions(64)
    .messages(16)
    .receives(8)
    .arrivals(6)
    .window_packets(128)
    .send_blocks(4)
    .bitmap_blocks(8)
    .message_slots(4)
    .read_slots(4)
    .paths(2)
    .withheld(8)
    .order_records(6)
    .bypass_answers(4)
    .groups(1)
    .deferred(4)
    .mailboxes(2)
    .mailbox_buffers(6)
    .put_streams(4)
    .flows(4);

/// A profile with short times, so that a channel ends soon.
fn profile() -> Profile {
    Profile::new()
        .timeout_min(Duration::from_ms(4))
        .timeout_max(Duration::from_ms(16))
        .timeout_initial(Duration::from_ms(8))
        .not_ready_retries(2)
        .bypass_retries(2)
        .keep_alive(Duration::from_ms(10))
        .peer_dead(Duration::from_ms(30))
        .path_probe(Duration::from_ms(10))
        // Operations use both channels of a group in turn.
        .group_slack(0)
}

/// Address at which peers access each kind of memory.
pub(super) fn address(memory: Memory) -> u64 {
    match memory {
        Memory::Open => 0x1000,
        Memory::Own => 0x2000,
        Memory::Closed => 0x3000,
        Memory::Secret => 0x4000,
        Memory::Staging => 0x5000,
    }
}

pub(super) struct Side {
    /// The NIC; payload has no bytes.
    pub(super) driver: Driver<UbDevice, ()>,
    pub(super) channel: ChannelId,
    /// The second channel of the group, if there is one.
    pub(super) member: Option<ChannelId>,
    pub(super) books: Books,
    queue: CompletionQueueId,
    mailbox: Option<MailboxId>,
    has_staging: bool,
    next_id: u64,
}

fn policies(which: u8) -> PolicySpec {
    static SPECS: OnceLock<[PolicySpec; 4]> = OnceLock::new();
    const TEXTS: [&str; 4] =
        ["", "cc=swift,path=p2c", "cc=fixed,loss=sack", "cc=eqds,probe=periodic"];
    let parse = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    SPECS.get_or_init(|| TEXTS.map(parse))[usize::from(which & 3)]
}

/// Makes two NICs with a channel between them, or a group of two channels. The bits of `settings`:
/// 1 and 2 select the policies, 4 staging memory, 8 a group of channels, 16 a group of Jetties, 128
/// one queue of receives for both Jetties.
pub(super) fn two(now: Instant, settings: u8) -> [Side; 2] {
    let mut sides = [0, 1].map(|number| Side::new(number, settings));
    let ends = [0, 1].map(|n: usize| (sides[n].driver.device().address(), sides[n].channels()));
    for (n, side) in sides.iter_mut().enumerate() {
        let (remote, theirs) = ends[1 - n];
        let ours = side.channels();
        for (engine, (own, other)) in ours.into_iter().zip(theirs).enumerate() {
            let (Some(own), Some(other)) = (own, other) else { continue };
            let config = ChannelConfig {
                leader: (engine > 0).then_some(side.channel),
                engine: engine as u32,
                remote,
                remote_tpn: other.tpn(),
                first_psn: FIRST_PSN[n],
                remote_first_psn: FIRST_PSN[1 - n],
                first_message: Msn::new(0xFF_FFF0),
                unreliable: true,
                bypass: true,
                parts: true,
                retires: true,
                carried_acks: true,
                mtu: MTU,
                paths: LIMITS.paths,
                remote_window: LIMITS.receive_window(),
                remote_message_slots: LIMITS.message_slots,
                remote_read_slots: LIMITS.read_slots,
                policy: policies(settings).build(MTU),
            };
            side.driver.device_mut().open_channel(now, own, config).expect("it was reserved");
        }
        if settings & 3 == 3 {
            side.driver
                .device_mut()
                .set_credit_policy(policies(settings).build_credit(LIMITS.channels));
        }
    }
    sides
}

impl Side {
    fn new(number: u32, settings: u8) -> Side {
        let has_staging = settings & 4 != 0;
        let mut nic = UbDevice::new(Cna::new(0xA + number), &LIMITS, &profile(), number.into());
        let channel = nic.reserve_channel().expect("there are two");
        let member = (settings & 8 != 0).then(|| nic.reserve_channel().expect("there are two"));
        let mut books = Books::default();
        let staging = u64::from(LIMITS.deferred * MTU);
        for (memory, length, rights, token_value) in [
            (Memory::Open, OPEN_BYTES, Rights::ALL, TOKEN),
            (Memory::Own, OWN_BYTES, Rights::NONE, TOKEN),
            (Memory::Closed, OPEN_BYTES, Rights::NONE, TOKEN),
            (Memory::Secret, OPEN_BYTES, Rights::ALL, SECRET),
            (Memory::Staging, staging, Rights::NONE, TOKEN),
        ] {
            let request = SegmentRequest { address: address(memory), length, rights, token_value };
            let id = nic.register(&request).expect("there is room");
            books.pieces.push(Piece { id, memory, length, released: false });
        }
        if has_staging {
            nic.set_staging(books.segment(Memory::Staging), MTU).expect("it is long enough");
        }
        let queue = nic.create_completion_queue(40).expect("there is room");
        for jetty in 0..JETTIES {
            let config = JettyConfig {
                number: Some(jetty),
                in_sequence: jetty == 1,
                ..JettyConfig::new(queue, queue)
            };
            nic.create_jetty(&config).expect("there is room");
        }
        let (mailbox, next_id) = (None, 0);
        let driver = Driver::new(nic, 0);
        let mut side =
            Side { driver, channel, member, books, queue, mailbox, has_staging, next_id };
        side.make_groups(settings);
        side.make_mailbox();
        side
    }

    /// The leader of the group, and the second channel.
    pub(super) fn channels(&self) -> [Option<ChannelId>; 2] {
        [Some(self.channel), self.member]
    }

    /// True if a channel is left, open or closing.
    pub(super) fn has_channels(&self) -> bool {
        // Checking one channel first is faster than counting all records.
        self.driver.device().is_open(self.channel) || self.driver.device().usage().channels > 0
    }

    fn make_groups(&mut self, settings: u8) {
        if settings & 128 != 0 {
            let [first, second] = [0, 1].map(JettyId::new);
            self.driver
                .device_mut()
                .share_receives(second, first)
                .expect("they complete to one queue");
        }
        if settings & 16 != 0 {
            let dispatch = [Dispatch::RoundRobin, Dispatch::Hint, Dispatch::LeastDepth]
                [usize::from(settings & 3) % 3];
            let config = GroupConfig { number: Some(GROUP.value()), dispatch, token_value: 0 };
            self.driver.device_mut().create_group(&config).expect("there is room");
            for jetty in 0..JETTIES {
                self.driver
                    .device_mut()
                    .join_group(GROUP, JettyId::new(jetty))
                    .expect("both are there");
            }
        }
    }

    fn make_mailbox(&mut self) {
        let config = MailboxConfig {
            address: Some(MAILBOX),
            key: TOKEN,
            threshold: Threshold::Operations(2),
            steering: Steering::Sender,
            when_empty: WhenEmpty::Wait,
            retired: 1,
        };
        self.mailbox = self.driver.device_mut().create_mailbox(&config).ok();
        self.post_buffer(1024);
    }

    fn post_buffer(&mut self, offset: u64) {
        let Some(mailbox) = self.mailbox else { return };
        let id = self.next_id();
        let range = self.own(offset, 200);
        if self.driver.device_mut().post_buffer(mailbox, id, range).is_ok() {
            self.books.lend(Loan::Buffer(id), range);
        }
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn own(&self, offset: u64, length: u32) -> LocalRange {
        LocalRange { segment: self.books.segment(Memory::Own), offset, length }
    }

    /// Posts an operation, mostly with valid numbers.
    pub(super) fn post(&mut self, now: Instant, script: &mut Script<'_>) {
        let kind = script.byte();
        let length = script.pick(&[8, MTU, 0, 2 * MTU + 5, 1, 5 * MTU]);
        let remote = RemoteRange {
            token_id: TokenId::new(0),
            token_value: TOKEN,
            address: address(Memory::Open) + u64::from(script.byte() & 0x7f) * 8,
        };
        let jetty = if kind & 32 != 0 { GROUP } else { JettyId::new(u32::from(kind >> 7)) };
        let target = Target { jetty, token_value: 0, hint: kind >> 6 };
        let mailbox = RemoteMailbox { address: MAILBOX, key: TOKEN };
        let (immediate, length) = (1, if kind & 15 == 8 { length.min(64) } else { length });
        let work = match kind & 15 {
            0 | 1 => Work::Write { remote },
            2 => Work::WriteImmediate { remote, target, immediate },
            3 | 4 => Work::Read { remote },
            5 => Work::Send { target },
            6 => Work::SendImmediate { target, immediate },
            7 => Work::Load { remote },
            8 => Work::Store { remote },
            9 => Work::Put { mailbox, offset: script.byte().into(), epoch: None },
            10 => Work::Put { mailbox, offset: 0, epoch: Some(script.byte().into()) },
            11 => Work::Get { mailbox, offset: script.byte().into(), epoch: None },
            _ => Work::Atomic {
                remote,
                width: 8,
                operator: AtomicOperator::Add,
                operand: 1,
                compare: 0,
            },
        };
        let order = order(script);
        let brings = matches!(work, Work::Read { .. } | Work::Load { .. } | Work::Get { .. });
        let is_silent = kind & 16 != 0 && !brings;
        let id = self.next_id() | if is_silent { SILENT } else { 0 };
        let local = self.own(u64::from(script.byte() & 15) * 32, length);
        let request =
            WorkRequest { id, channel: self.channel, work, local, signaled: !is_silent, order };
        let jetty = JettyId::new(u32::from(kind >> 6 & 1));
        if self.driver.device_mut().post(now, jetty, &request).is_ok() && !is_silent {
            let lent = LocalRange { length: if brings { local.length } else { 0 }, ..local };
            self.books.lend(Loan::Operation(id), lent);
        }
    }

    pub(super) fn post_receive(&mut self, script: &mut Script<'_>) {
        let id = self.next_id();
        let jetty = script.below(JETTIES);
        let length = script.pick(&[MTU, 3 * MTU, 8, 0]);
        let local = self.own(1400 + u64::from(script.byte()), length);
        let request = ReceiveRequest { id, local };
        if self.driver.device_mut().post_receive(JettyId::new(jetty), &request).is_ok() {
            self.books.lend(Loan::Receive(id, jetty), local);
        }
    }

    pub(super) fn close(&mut self, now: Instant) {
        // The channel may have ended already.
        let _ = self.driver.device_mut().close_channel(now, self.channel);
    }

    pub(super) fn deregister_open(&mut self) {
        let segment = self.books.segment(Memory::Open);
        if self.driver.device_mut().deregister(segment) == Ok(true) {
            self.books.released(segment);
        }
    }

    pub(super) fn change_mailbox(&mut self, script: &mut Script<'_>) {
        let Some(mailbox) = self.mailbox else { return };
        match script.below(6) {
            0 | 1 => self.post_buffer(1024 + u64::from(script.byte())),
            2 => {
                let _ = self.driver.device_mut().increment_epoch(mailbox);
            }
            3 => {
                if self.driver.device_mut().rewind(mailbox, 1).is_ok() {
                    // Earlier events are reported first.
                    self.collect();
                    self.books.drop_all(|loan| matches!(loan, Loan::Buffer(_)));
                }
            }
            4 => {
                let _ = self.driver.device_mut().close_mailbox(mailbox, script.flag());
            }
            _ => self.release_mailbox(),
        }
    }

    fn release_mailbox(&mut self) {
        let Some(mailbox) = self.mailbox else { return };
        if self.driver.device_mut().release_mailbox(mailbox).is_ok() {
            self.mailbox = None;
            self.collect();
            self.books.drop_all(|loan| matches!(loan, Loan::Buffer(_)));
        }
    }

    pub(super) fn change_jetty(&mut self, script: &mut Script<'_>) {
        let number = script.below(JETTIES);
        let jetty = JettyId::new(number);
        match script.below(8) {
            0 => {
                if self.driver.device_mut().destroy_jetty(jetty).is_ok() {
                    // Pending completions belong to the application.
                    self.collect();
                    self.forget_receives(number);
                }
            }
            1 => {
                let _ = self.driver.device_mut().abort_jetty(jetty);
            }
            2 => {
                let _ = self.driver.device_mut().set_jetty_state(jetty, JettyState::Error);
            }
            3 => {
                let _ = self.driver.device_mut().set_jetty_state(jetty, JettyState::Suspended);
            }
            4 => {
                let _ = self.driver.device_mut().set_jetty_state(jetty, JettyState::Ready);
            }
            5 => {
                let _ = self.driver.device_mut().leave_group(GROUP, jetty);
            }
            6 => {
                let _ = self.driver.device_mut().join_group(GROUP, jetty);
            }
            _ => {
                let exception = ExceptionMode::Suspend;
                let (send_queue, receive_queue) = (self.queue, self.queue);
                let config = JettyConfig {
                    number: Some(number),
                    exception,
                    ..JettyConfig::new(send_queue, receive_queue)
                };
                let _ = self.driver.device_mut().create_jetty(&config);
            }
        }
    }

    fn forget_receives(&mut self, number: u32) {
        self.books.drop_all(|loan| matches!(loan, Loan::Receive(_, jetty) if *jetty == number));
    }

    /// Handles completions and epochs.
    pub(super) fn collect(&mut self) {
        while let Some(done) = self.driver.device_mut().poll_epoch() {
            self.books.drop_all(|loan| *loan == Loan::Buffer(done.id));
        }
        while let Some(completion) = self.driver.device_mut().poll_completion(self.queue) {
            let id = completion.id;
            match completion.kind {
                CompletionKind::Receive | CompletionKind::ReceiveWrite => {
                    self.books.settle(|loan| matches!(loan, Loan::Receive(own, _) if *own == id));
                }
                _ if id & SILENT != 0 => assert_ne!(completion.status, Status::Success),
                _ => self.books.settle(|loan| *loan == Loan::Operation(id)),
            }
        }
    }

    /// Releases all resources after the channel has ended, and checks that none is left.
    pub(super) fn strip(&mut self) {
        self.collect();
        assert_eq!(self.books.operations(), 0, "an operation has not completed");
        // There is a group only with that setting.
        let _ = self.driver.device_mut().destroy_group(GROUP);
        for number in (0..JETTIES).rev() {
            let jetty = JettyId::new(number);
            if self.driver.device().has_jetty(jetty) {
                self.driver
                    .device_mut()
                    .destroy_jetty(jetty)
                    .expect("nothing is under way any more");
            }
        }
        if let Some(mailbox) = self.mailbox {
            let _ = self.driver.device_mut().close_mailbox(mailbox, true);
            self.release_mailbox();
            assert!(self.mailbox.is_none());
        }
        self.collect();
        if self.has_staging {
            self.driver.device_mut().clear_staging();
        }
        for at in 0..self.books.pieces.len() {
            let Piece { id, memory, released, .. } = self.books.pieces[at];
            let gone = released || self.driver.device_mut().deregister(id) == Ok(true);
            assert!(gone || memory == Memory::Open, "{memory:?} is still in use");
        }
        // A segment deregistered before the channel ended is released by an event.
        while let Some(event) = self.driver.device_mut().poll_event() {
            if let fairway_ub::Event::SegmentReleased { segment } = event {
                self.books.released(segment);
            }
        }
        assert_eq!(self.driver.device().usage(), Usage::default());
    }
}

fn order(script: &mut Script<'_>) -> OrderRequest {
    let code = script.byte();
    let modes = [ServiceMode::Rol, ServiceMode::Rot, ServiceMode::Roi, ServiceMode::Uno];
    let tags = [Tag::No, Tag::So, Tag::Ro, Tag::Mo];
    if code & 0x80 == 0 {
        return OrderRequest::default();
    }
    OrderRequest {
        mode: modes[usize::from(code & 3)],
        tag: tags[usize::from(code >> 2 & 3)],
        fence: code & 16 != 0,
        complete_in_order: code & 32 != 0,
        receive_in_order: code & 64 != 0,
    }
}
