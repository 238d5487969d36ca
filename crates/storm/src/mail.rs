//! Mail: the applications' use of mailboxes. Every put begins with a record that identifies it, so
//! the bytes of a completed epoch show which puts it contains.

use crate::application::Connection;
use crate::finding::Finding;
use crate::operation::{Life, STATUSES};
use crate::plan::{MailPlan, Plan};
use crate::world::World;
use fairway_device::random::Random;
use fairway_ub::wire::{JettyId, ServiceMode, Tag};
use fairway_ub::{
    ChannelId, EpochDone, LocalRange, MailboxConfig, MailboxId, OrderRequest, PostError,
    RemoteMailbox, Rights, SegmentId, SegmentRequest, Status, Steering, Threshold, WhenEmpty, Work,
    WorkRequest,
};

/// Set in the ids of puts and gets, and clear in those of other operations and of receives.
pub(crate) const LETTER: u64 = 1 << 62;
/// Also set in the id of a get.
pub(crate) const GET: u64 = 1 << 61;
/// Bytes of the record at the beginning of a put: its number and its length.
pub(crate) const HEAD: usize = 12;
/// Byte with which a buffer is filled before it is posted.
pub(crate) const BLANK: u8 = 0xEE;
/// Number of mailbox addresses. Puts to one of them reach only the catch-all mailbox.
const ADDRESSES: u64 = 4;
/// Maximum number of packets of a put.
const PACKETS_MAX: u64 = 40;

/// A put that was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutRecord {
    pub(crate) from: Life,
    pub(crate) to: Life,
    pub(crate) channel: ChannelId,
    pub(crate) jetty: JettyId,
    pub(crate) address: u64,
    pub(crate) length: u32,
    /// Offset that the sender chose.
    pub(crate) offset: u64,
    pub(crate) epoch: Option<u32>,
    /// True if the put names a wrong key or offset, so that it must be refused.
    pub(crate) is_wrong: bool,
    pub(crate) signaled: bool,
    pub(crate) status: Option<Status>,
    /// True if the receiver chooses the offset.
    pub(crate) is_in_stream: bool,
    /// Mailbox, epoch and offset at which the put was found.
    pub(crate) found: Option<(usize, u64, usize)>,
}

/// A buffer of a mailbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub(crate) at: usize,
    pub(crate) length: u32,
    /// The NIC's report of the completed epoch.
    pub(crate) done: Option<EpochDone>,
}

/// An application's record of a mailbox.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    pub(crate) serial: usize,
    pub(crate) id: MailboxId,
    pub(crate) config: MailboxConfig,
    pub(crate) epochs: Vec<Posted>,
    pub(crate) is_closed: bool,
}

/// The mailboxes of one node, and the memory that their application uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct MailboxState {
    pub(crate) boxes: Vec<Mailbox>,
    /// Memory of outgoing puts, and memory of buffers: key and segment.
    pub(crate) source_segment: Option<(usize, SegmentId)>,
    pub(crate) buffer_segment: Option<(usize, SegmentId)>,
    /// True if the protocol permits that puts to this node were lost or delivered out of order.
    pub(crate) is_lossy: bool,
}

/// All puts, and the mailboxes of all nodes.
#[derive(Debug)]
pub(crate) struct Mail {
    pub(crate) random: Random,
    pub(crate) plan: MailPlan,
    pub(crate) states: Vec<MailboxState>,
    pub(crate) puts: Vec<PutRecord>,
    /// Operations whose end has not been reported yet.
    pub(crate) pending: u64,
    pub(crate) gets: Vec<Get>,
    pub(crate) serial: usize,
    pub(crate) statuses: [u64; STATUSES.len()],
}

/// A get that was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Get {
    pub(crate) from: Life,
    pub(crate) channel: ChannelId,
    pub(crate) local: (usize, usize),
    /// Memory that the get reads, if its content can no longer change.
    pub(crate) source: Option<(usize, usize)>,
    pub(crate) length: u32,
    pub(crate) is_done: bool,
}

/// Target of a put.
struct Address {
    mailbox: RemoteMailbox,
    offset: u64,
    epoch: Option<u32>,
    /// True if the put names a wrong key or offset, so that it must be refused.
    is_wrong: bool,
}

impl Mail {
    pub(crate) fn new(seed: u64, plan: &Plan) -> Mail {
        Mail {
            random: Random::fork(seed, 10),
            plan: plan.mail,
            states: vec![MailboxState::default(); plan.limits.len()],
            puts: Vec::new(),
            pending: 0,
            gets: Vec::new(),
            serial: 0,
            statuses: [0; STATUSES.len()],
        }
    }

    /// Bytes of a buffer: every put has a slot, so that no two overlap.
    fn buffer_length(&self) -> u32 {
        self.plan.slot * self.plan.puts as u32
    }

    /// Creates the mailboxes of a fresh NIC.
    pub(crate) fn set_up(&mut self, world: &mut World, node: usize) {
        self.states[node] = MailboxState::default();
        if self.plan.puts == 0 {
            return;
        }
        let puts = 2 * self.plan.puts * u64::from(self.plan.slot + 1);
        let source_segment = self.register(world, node, puts);
        // Every put may end an epoch; some epochs end without one, and some buffers remain unused.
        let buffers = self.plan.puts + 100;
        let buffer_segment =
            self.register(world, node, buffers * u64::from(self.buffer_length() + 40));
        self.states[node].source_segment = source_segment;
        self.states[node].buffer_segment = buffer_segment;
        for address in 0..ADDRESSES {
            if self.random.chance(600) {
                self.create(world, node, address);
            }
        }
    }

    fn register(
        &mut self,
        world: &mut World,
        node: usize,
        length: u64,
    ) -> Option<(usize, SegmentId)> {
        let request = SegmentRequest { address: 0, length, rights: Rights::NONE, token_value: 0 };
        let id = world.nic(node)?.register(&request).ok()?;
        let key = world.memory.add(node, id, length as usize, &mut self.random);
        Some((key, id))
    }

    /// Creates a mailbox; the one at address 0 is the catch-all.
    fn create(&mut self, world: &mut World, node: usize, address: u64) {
        let random = &mut self.random;
        let threshold = match random.below(2) {
            0 => Threshold::Operations(random.magnitude(12)),
            _ => Threshold::Bytes(random.magnitude(u64::from(self.plan.slot) * 12)),
        };
        let config = MailboxConfig {
            address: (address > 0).then_some(address),
            key: 7,
            threshold,
            steering: random.pick(&[Steering::Sender, Steering::Receiver]),
            when_empty: random.pick(&[WhenEmpty::Wait, WhenEmpty::Wait, WhenEmpty::Refuse]),
            retired: random.below(4) as u32,
        };
        let Some(nic) = world.nic(node) else { return };
        let Ok(id) = nic.create_mailbox(&config) else { return };
        world.trace.line(world.now, node, || format!("makes {id:?}: {config:?}"));
        self.serial += 1;
        let (serial, epochs) = (self.serial, Vec::new());
        self.states[node].boxes.push(Mailbox { serial, id, config, epochs, is_closed: false });
    }

    /// Runs one tick of the application on `node`.
    pub(crate) fn tick(
        &mut self,
        world: &mut World,
        plan: &Plan,
        connections: &[Connection],
        node: usize,
    ) -> Result<(), Finding> {
        let healed = world.adversary.is_healed();
        let is_away = world.nodes[node].driver.is_none() || world.is_paused(node);
        if is_away || self.states[node].buffer_segment.is_none() {
            return Ok(());
        }
        for at in 0..self.states[node].boxes.len() {
            let want = match self.random.chance(self.plan.lazy) && !healed {
                true => 0,
                // Puts of epochs that are done follow from the next buffer.
                false if healed && plan.extras.untimely > 0 => 1,
                // A put may name the epoch after the current one, whose buffer must exist.
                false => self.random.range(2 * u64::from(healed), 5) as usize,
            };
            let waiting = |mailbox: &Mailbox| {
                mailbox.epochs.iter().filter(|posted| posted.done.is_none()).count()
            };
            let named = if healed { self.epochs_named(world, node, at) } else { 0 };
            let is_short = |mailbox: &Mailbox| {
                waiting(mailbox) < want || (mailbox.epochs.len() as u64) < named
            };
            while is_short(&self.states[node].boxes[at]) {
                if !self.post_buffer(world, node, at) {
                    break;
                }
            }
        }
        if !healed {
            for _ in 0..self.random.range(0, 4) {
                self.write(world, plan, connections, node)?;
            }
            if self.random.chance(self.plan.rough) && !self.states[node].boxes.is_empty() {
                self.be_rough(world, node)?;
            }
        }
        world.look(node);
        world.schedule_poll(node);
        Ok(())
    }

    /// Number of buffers that a mailbox needs so that no put to it waits for one: the highest epoch
    /// that a pending put names, plus one.
    ///
    /// A put that names its epoch is delivered there or nowhere, and waits as long as that epoch
    /// has no buffer (`fairway_ub`, `mailbox`). If the application has recreated or rewound the
    /// mailbox since the put was written, the epoch may lie any number ahead. No put ends the
    /// epochs before it then, and only buffers that the application posts end the wait.
    fn epochs_named(&self, world: &World, node: usize, at: usize) -> u64 {
        let boxes = &self.states[node].boxes;
        let here = (node, world.nodes[node].incarnation);
        let own = |address: u64| boxes.iter().position(|own| own.config.address == Some(address));
        let catch_all = boxes.iter().position(|own| own.config.address.is_none());
        let is_mine = |put: &&PutRecord| {
            let waits = put.status.is_none() && put.to == here;
            waits && own(put.address).or(catch_all) == Some(at)
        };
        let epochs = self.puts.iter().filter(is_mine).filter_map(|put| put.epoch);
        epochs.map(|epoch| u64::from(epoch) + 1).max().unwrap_or(0)
    }

    fn post_buffer(&mut self, world: &mut World, node: usize, at: usize) -> bool {
        let length = self.buffer_length();
        let mailboxes = &mut self.states[node];
        let mailbox = &mut mailboxes.boxes[at];
        let Some((key, segment)) = mailboxes.buffer_segment.filter(|_| !mailbox.is_closed) else {
            return false;
        };
        let gap = self.random.below(40) as usize;
        let Some(start) = world.memory.reserve(key, length as usize, gap) else {
            // The segment of buffers is full, and buffers are not reused, so puts may be refused
            // from now on.
            return false;
        };
        world.memory.write(key, start, &vec![BLANK; length as usize]);
        let local = LocalRange { segment, offset: start as u64, length };
        let id = mailbox.epochs.len() as u64;
        let Some(nic) = world.nic(node) else { return false };
        if nic.post_buffer(mailbox.id, id, local).is_err() {
            return false;
        }
        let name = mailbox.id;
        world.trace.line(world.now, node, || format!("posts buffer {id} to {name:?}: {local:?}"));
        mailbox.epochs.push(Posted { at: start, length, done: None });
        true
    }

    /// Posts a put, or a get that reads a part of a mailbox.
    fn write(
        &mut self,
        world: &mut World,
        plan: &Plan,
        connections: &[Connection],
        node: usize,
    ) -> Result<(), Finding> {
        let index = self.random.below(plan.links.len() as u64) as usize;
        let link = &plan.links[index];
        let Some(side) = link.nodes.iter().position(|&end| end == node) else { return Ok(()) };
        let Some(channel) = connections[index].ends[side] else { return Ok(()) };
        let peer = link.nodes[1 - side];
        let Some((source_segment, segment)) = self.states[node].source_segment else {
            return Ok(());
        };
        let number = self.puts.len() as u64;
        if number >= self.plan.puts {
            return Ok(());
        }
        let packets = plan.packets_max.min(PACKETS_MAX);
        let most = u64::from(self.plan.slot).min(packets * u64::from(link.mtu));
        let length = self.random.range(HEAD as u64, most.max(HEAD as u64)) as u32;
        let here = (peer, world.nodes[peer].incarnation);
        let Address { mailbox, offset, epoch, is_wrong } = self.draw_address(world, peer, number);
        let Some(at) = world.memory.reserve(source_segment, length as usize, 1) else {
            return Ok(());
        };
        world.memory.write(source_segment, at, &text_of(number, length));
        let jetty = JettyId::new(self.random.below(u64::from(plan.jetties)) as u32);
        let request = WorkRequest {
            id: number | LETTER,
            channel,
            work: Work::Put { mailbox, offset, epoch },
            local: LocalRange { segment, offset: at as u64, length },
            signaled: !self.random.chance(plan.unsignaled),
            order: self.draw_order(),
        };
        let put = PutRecord {
            from: (node, world.nodes[node].incarnation),
            to: here,
            channel,
            jetty,
            address: mailbox.address,
            length,
            offset,
            epoch,
            is_wrong,
            signaled: request.signaled,
            status: None,
            is_in_stream: false,
            found: None,
        };
        if post(world, node, jetty, &request)? {
            self.pending += u64::from(request.signaled);
            self.puts.push(put);
            if self.random.chance(200) {
                self.get(world, &put, source_segment, segment, most)?;
            }
        }
        Ok(())
    }

    /// Draws the mailbox, offset and epoch of a put to a node.
    fn draw_address(&mut self, world: &mut World, peer: usize, number: u64) -> Address {
        let random = &mut self.random;
        let mut mailbox = RemoteMailbox { address: 1 + random.below(ADDRESSES), key: 7 };
        let mut offset = number * u64::from(self.plan.slot);
        let target = self.states[peer]
            .boxes
            .iter()
            .find(|other| other.config.address == Some(mailbox.address) && !other.is_closed);
        let steering = target.map_or(Steering::Sender, |target| target.config.steering);
        let current = target.and_then(|target| {
            world.nodes[peer].nic().and_then(|nic| nic.mailbox_epoch(target.id))
        });
        let epoch = match current {
            Some(epoch) if random.chance(self.plan.named) => {
                Some((epoch + random.below(3)).saturating_sub(1) as u32)
            }
            _ => None,
        };
        let is_wrong = random.chance(self.plan.wrong);
        if is_wrong {
            match random.below(3) {
                0 => mailbox.key ^= 1,
                1 if target.is_some() && steering == Steering::Sender && self.plan.rough == 0 => {
                    offset = u64::MAX - random.below(100);
                }
                _ => mailbox.key = random.number() as u32 | 8,
            }
        }
        Address { mailbox, offset, epoch, is_wrong }
    }

    /// Posts a get of a part of the mailbox that a put addresses.
    fn get(
        &mut self,
        world: &mut World,
        put: &PutRecord,
        source_segment: usize,
        segment: SegmentId,
        most: u64,
    ) -> Result<(), Finding> {
        let (peer, random) = (put.to.0, &mut self.random);
        let length = random.below(most) as u32;
        let offset = random.below(u64::from(self.plan.slot));
        let node = put.from.0;
        let Some(at) = world.memory.reserve(source_segment, length as usize, 1) else {
            return Ok(());
        };
        let targets = &self.states[peer].boxes;
        let target = targets
            .iter()
            .find(|other| other.config.address == Some(put.address) && !other.is_closed);
        // The content of a completed epoch no longer changes.
        let done = target.and_then(|target| {
            let last = target.epochs.iter().rposition(|posted| posted.done.is_some())?;
            (last as u32 > 0 && target.config.retired > 1).then_some((last, target.epochs[last].at))
        });
        let buffer_segment = self.states[peer].buffer_segment;
        let source =
            buffer_segment.zip(done).map(|((key, _), (_, at))| (key, at + offset as usize));
        // After a rewind this epoch may never complete again.
        let epoch = done.filter(|_| self.plan.rough == 0).map(|(epoch, _)| epoch as u32);
        let mailbox = RemoteMailbox { address: put.address, key: 7 };
        let request = WorkRequest {
            id: self.gets.len() as u64 | LETTER | GET,
            channel: put.channel,
            work: Work::Get { mailbox, offset, epoch },
            local: LocalRange { segment, offset: at as u64, length },
            signaled: true,
            order: self.draw_order(),
        };
        if post(world, node, put.jetty, &request)? {
            self.pending += 1;
            let (from, channel, local) = (put.from, put.channel, (source_segment, at));
            self.gets.push(Get { from, channel, local, source, length, is_done: false });
        }
        Ok(())
    }

    fn draw_order(&mut self) -> OrderRequest {
        let random = &mut self.random;
        if !random.chance(self.plan.ordered) {
            return OrderRequest::default();
        }
        OrderRequest {
            mode: random.pick(&[ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol]),
            tag: random.pick(&[Tag::No, Tag::Ro, Tag::So]),
            fence: random.chance(200),
            complete_in_order: random.chance(300),
            receive_in_order: false,
        }
    }

    /// Ends an epoch early, rewinds to an earlier one, or closes a mailbox and opens another.
    fn be_rough(&mut self, world: &mut World, node: usize) -> Result<(), Finding> {
        let count = self.states[node].boxes.len() as u64;
        let at = self.random.below(count) as usize;
        let (what, back, nack) =
            (self.random.below(4), self.random.range(1, 3) as u32, self.random.chance(500));
        let Mailbox { id, is_closed, .. } = self.states[node].boxes[at];
        self.states[node].is_lossy = true;
        if let Some((_, buffer_segment)) = self.states[node].buffer_segment {
            world.finish_placements(node, buffer_segment)?;
        }
        let Some(nic) = world.nic(node) else { return Ok(()) };
        match what {
            0 | 1 if !is_closed => {
                let ended = nic.increment_epoch(id);
                world.trace.line(world.now, node, || format!("ends {ended:?} of {id:?}"));
            }
            2 if !is_closed => {
                if let Ok(done) = nic.rewind(id, back) {
                    world.trace.line(world.now, node, || format!("rewinds {id:?}: {done:?}"));
                    self.read_epochs(world, node)?;
                    self.check_rewound(node, at, &done)?;
                    self.rewound(world, node, at, done.epoch as usize);
                }
            }
            _ if !is_closed => {
                nic.close_mailbox(id, nack).map_err(|error| format!("{id:?}: {error:?}"))?;
                world.trace.line(world.now, node, || format!("closes {id:?}, nack {nack}"));
                self.states[node].boxes[at].is_closed = true;
            }
            _ => {
                nic.release_mailbox(id).map_err(|error| format!("{id:?}: {error:?}"))?;
                world.trace.line(world.now, node, || format!("releases {id:?}"));
                self.read_epochs(world, node)?;
                self.rewound(world, node, at, 0);
                let address = self.states[node].boxes.remove(at).config.address;
                self.create(world, node, address.unwrap_or(0));
            }
        }
        Ok(())
    }

    /// Returns the buffers from this epoch on to the application, whatever they contain.
    fn rewound(&mut self, world: &mut World, node: usize, at: usize, epoch: usize) {
        let Some((key, _)) = self.states[node].buffer_segment else { return };
        for posted in self.states[node].boxes[at].epochs.drain(epoch..) {
            world.memory.accept(key, posted.at, posted.length as usize);
        }
    }
}

fn post(
    world: &mut World,
    node: usize,
    jetty: JettyId,
    request: &WorkRequest,
) -> Result<bool, Finding> {
    let now = world.now;
    world.awaken(node, request.channel);
    let Some(nic) = world.nic(node) else { return Ok(false) };
    match nic.post(now, jetty, request) {
        Ok(()) => {
            world.trace.line(now, node, || format!("writes {request:?}"));
            Ok(true)
        }
        Err(
            PostError::TooManyMessages
            | PostError::CompletionQueueFull
            | PostError::TooManyOrders
            | PostError::MemoryOrder
            | PostError::TooManyPuts
            | PostError::NotReady
            | PostError::NoJetty,
        ) => Ok(false),
        Err(PostError::NoChannel) if !nic.is_open(request.channel) => Ok(false),
        Err(error) => Err(format!("{error:?} for {request:?}").into()),
    }
}

/// Returns the bytes of a put, which begin with its record.
pub(crate) fn text_of(number: u64, length: u32) -> Vec<u8> {
    let mut text = Vec::with_capacity(length as usize);
    text.extend(number.to_le_bytes());
    text.extend(length.to_le_bytes());
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while text.len() < length as usize {
        state = state.wrapping_mul(0xBF58_476D_1CE4_E5B9).rotate_left(23) ^ number;
        // A byte that never arrived must be distinguishable from one that did.
        let byte = (state >> 32) as u8;
        text.push(if byte == BLANK { !BLANK } else { byte });
    }
    text
}
