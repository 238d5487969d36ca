//! Commands of ranks to the NIC, and the NIC's events.

use super::*;

impl Ranks {
    /// Handles a command that has reached the NIC.
    pub(super) fn command(&mut self, nic: &mut UbDevice, now: u64, command: (u32, Order, u32)) {
        if !self.blocked.is_empty() || !self.post(nic, now, command) {
            self.blocked.push_back(command);
        }
    }

    /// Posts a command to the protocol. Returns false if it has to wait until others have
    /// completed.
    fn post(&mut self, nic: &mut UbDevice, now: u64, command: (u32, Order, u32)) -> bool {
        let (link, order, turn) = command;
        let rank = self.first + self.rank_of(link);
        let here = &self.links[link as usize];
        let note = LocalRange { length: NOTE_BYTES, ..self.at(self.links.len() as u32 + 1, 0) };
        let (work, local) = match order {
            Order::Put => {
                let mailbox = RemoteMailbox { address: mailbox_address(here.peer, rank), key: 0 };
                (Work::Put { mailbox, offset: 0, epoch: None }, self.outgoing(link, turn))
            }
            Order::Write => {
                let remote = self.remote(here.there, turn);
                (Work::Write { remote }, self.outgoing(link, turn))
            }
            Order::Read => {
                let local = LocalRange { length: here.length, ..self.at(link, turn) };
                (Work::Read { remote: self.remote(here.there, turn) }, local)
            }
            note_of => {
                let jetty = jetty_of(&self.program, here.peer);
                let target = Target { jetty, ..Target::default() };
                let immediate = u64::from(rank) << 32 | note_of as u64;
                let local = if order == Order::Eager { self.outgoing(link, turn) } else { note };
                (Work::SendImmediate { target, immediate }, local)
            }
        };
        let follows = self.program.protocol == Protocol::Write { ordered: false };
        let ordered = |tag| OrderRequest { mode: ServiceMode::Rot, tag, ..OrderRequest::default() };
        let request = WorkRequest {
            id: u64::from(link) << 8 | order as u64,
            channel: here.channel.expect("ranks of one host copy"),
            work,
            local,
            // No rank waits for the completion of the other commands.
            signaled: matches!(order, Order::Put | Order::Write | Order::Read),
            order: match order {
                Order::Write if follows => ordered(Tag::Ro),
                Order::Written => ordered(Tag::So),
                _ => OrderRequest::default(),
            },
        };
        match nic.post(Instant::from_ps(now), jetty_of(&self.program, rank), &request) {
            Ok(()) => {}
            Err(PostError::CompletionQueueFull | PostError::TooManyMessages) => return false,
            Err(PostError::NoChannel) => {
                self.failed += 1;
                return true;
            }
            Err(error) => panic!("{order:?} of rank {rank} cannot be posted: {error:?}"),
        }
        if order == Order::Write && follows {
            self.command(nic, now, (link, Order::Written, turn));
        }
        true
    }

    /// Returns the memory of a message that is sent.
    fn outgoing(&self, link: u32, turn: u32) -> LocalRange {
        let length = self.links[link as usize].out[(turn % DEPTH) as usize];
        LocalRange { length, ..self.at(link, turn) }
    }

    fn remote(&self, link: u32, turn: u32) -> RemoteRange {
        let address = self.at(link, turn).offset;
        RemoteRange { token_id: self.segment.token_id(), token_value: TOKEN, address }
    }

    /// Records payload placed in a link's memory.
    pub(crate) fn placed(&mut self, now: u64, place: &LocalRange) {
        let at = (place.offset >> SLOT_BITS) as usize;
        // Staging memory and notes do not count.
        let Some(link) = self.links.get_mut(at).filter(|_| place.segment == self.segment) else {
            return;
        };
        link.placed += u64::from(place.length);
        if self.program.protocol == (Protocol::Write { ordered: true }) && link.placed == link.due {
            let at = at as u32;
            self.schedule(now + self.program.host_ps, Act::Came(at));
        }
    }

    /// Handles a mailbox buffer that a put has filled.
    pub(crate) fn epoch(&mut self, now: u64, done: &EpochDone) {
        if done.cancelled > 0 {
            // The sender's NIC has given up this host, and with it the message.
            self.failed += 1;
            return;
        }
        assert!(done.operations == 1 && !done.early, "an epoch is a message: {done:?}");
        self.schedule(now + self.program.host_ps, Act::Came(done.id as u32));
    }

    /// Handles the completion of an operation or a receive.
    pub(crate) fn completed(&mut self, nic: &mut UbDevice, now: u64, completion: &Completion) {
        if completion.status != Status::Success {
            // The NIC has given up the peer because its links failed for too long.
            self.failed += 1;
            return;
        }
        let handled_at = now + self.program.host_ps;
        if completion.kind == CompletionKind::Receive {
            return self.received(nic, now, completion);
        }
        let link = (completion.id >> 8) as u32;
        match ORDERS[(completion.id & 7) as usize] {
            Order::Read => {
                self.schedule(handled_at, Act::Came(link));
                self.schedule(
                    handled_at + self.program.host_ps,
                    Act::Command(link, Order::Taken, 0),
                );
            }
            _ => self.schedule(handled_at, Act::Freed(link)),
        }
        while let Some(command) = self.blocked.front().copied() {
            if !self.post(nic, now, command) {
                return;
            }
            self.blocked.pop_front();
        }
    }

    /// Handles a received note or short message.
    fn received(&mut self, nic: &mut UbDevice, now: u64, completion: &Completion) {
        let rank = completion.jetty.value() - 1;
        let immediate = completion.immediate.expect("notes say what they are");
        let link = self.link(rank, (immediate >> 32) as u32);
        let posted = self.post_receive(nic, self.first + rank);
        posted.expect("the receive that was taken is free");
        let handled_at = now + self.program.host_ps;
        match ORDERS[(immediate & 7) as usize] {
            Order::Grant => self.schedule(handled_at, Act::Granted(link)),
            Order::Match => self.schedule(handled_at, Act::Matched(link)),
            Order::Taken => self.schedule(handled_at, Act::Freed(link)),
            Order::Written => self.schedule(handled_at, Act::Came(link)),
            Order::Eager => {
                self.links[link as usize].placed += u64::from(completion.bytes);
                let copied = handled_at + self.program.copy_ps(completion.bytes);
                self.schedule(copied, Act::Came(link));
            }
            order @ (Order::Put | Order::Write | Order::Read) => {
                unreachable!("{order:?} is no note")
            }
        }
    }
}
