//! The local and remote ranges of an operation, and its expected result.

use super::*;
use crate::board_oracle::range_of;

impl Workload {
    /// Draws the rest of an operation; `None` if there is no room for it.
    pub(super) fn compose(
        &mut self,
        world: &mut World,
        model: &Model,
        plan: &Plan,
        draft: Draft,
    ) -> Option<(Operation, WorkRequest)> {
        let node = draft.life.0;
        let target_jetty = JettyId::new(self.random.below(u64::from(plan.jetties)) as u32);
        let wrong = self.random.chance(plan.wrong);
        let succeeds = Statuses::of(&[Status::Success]);
        let target_life = (draft.peer, world.nodes[draft.peer].incarnation);
        let mut operation = draft.begin(target_life, target_jetty);
        let receives =
            matches!(draft.kind, Kind::WriteImmediate | Kind::Send | Kind::SendImmediate);
        let in_sequence = receives && plan.extras.in_sequence;
        operation.order.receive_in_order |= in_sequence;
        if in_sequence {
            operation.target_jetty = draft.jetty;
        }
        let group = !in_sequence && self.draw_group(plan, &mut operation);
        let is_send = matches!(draft.kind, Kind::Send | Kind::SendImmediate);
        if is_send {
            self.fit_to_receives(&mut operation, group, wrong);
        }
        if draft.kind == Kind::Atomic {
            return self.compose_atomic(world, model, draft, operation, wrong);
        }
        if matches!(draft.kind, Kind::Load | Kind::Store) {
            return self.compose_bypass(world, model, draft, operation, wrong);
        }
        let local = self.local(world, &mut operation)?;
        if draft.kind != Kind::Read && draft.kind != Kind::Write && wrong && self.random.chance(300)
        {
            operation.target_jetty = JettyId::new(14);
            operation.allowed = Statuses::of(&[Status::RemoteNoJetty]);
        }
        let remote = if is_send {
            RemoteRange::default()
        } else {
            match self.board(plan, &mut operation, wrong) {
                Some(remote) => remote,
                None => self.remote(world, &mut operation, wrong)?,
            }
        };
        if operation.is_unreliable() && operation.allowed != succeeds {
            // The refusal is not reported, but nothing may be written.
            operation.allowed = succeeds;
            operation.remote = None;
        }
        let retries = plan.profiles[node].not_ready_retries;
        if matches!(draft.kind, Kind::WriteImmediate | Kind::Send | Kind::SendImmediate)
            && retries != 7
        {
            operation.allowed = operation.allowed.with(Status::ReceiverNotReady);
        }
        let id = model.operation_id();
        let work = work_of(&operation, remote, id)?;
        let local = LocalRange {
            segment: local.id,
            offset: operation.local.1 as u64,
            length: operation.length,
        };
        let (channel, signaled) = (draft.channel, draft.signaled);
        let order = operation.order;
        Some((operation, WorkRequest { id, channel, work, local, signaled, order }))
    }

    /// Shortens a SEND to the length of receive buffers, unless it is to be refused.
    fn fit_to_receives(&mut self, operation: &mut Operation, group: bool, wrong: bool) {
        let capacity = match group {
            true => self.capacities.iter().min().copied().unwrap_or_default(),
            false => self.capacities[operation.target_jetty.value() as usize],
        };
        if operation.length <= capacity {
            return;
        }
        if wrong && !group {
            operation.allowed = Statuses::of(&[Status::RemoteLength]);
        } else {
            operation.length = self.random.range(0, u64::from(capacity)) as u32;
        }
    }

    /// Draws the local range: the destination of a READ, or the source of the data.
    fn local(&mut self, world: &mut World, operation: &mut Operation) -> Option<Segment> {
        let (node, length) = (operation.life.0, operation.length as usize);
        if operation.kind == Kind::Read {
            let landing = self.segment(node, Role::Landing)?;
            let gap = self.random.below(GAP_MAX) as usize;
            operation.local = (landing.key, world.memory.reserve(landing.key, length, gap)?);
            Some(landing)
        } else {
            let role = self.random.pick(&[Role::Source, Role::Private]);
            let source = self.segment(node, role)?;
            let at = self.random.below(source.length - length as u64 + 1) as usize;
            operation.local = (source.key, at);
            Some(source)
        }
    }

    /// Draws a place on the peer's board, in the Jetty's range.
    fn board(
        &mut self,
        plan: &Plan,
        operation: &mut Operation,
        wrong: bool,
    ) -> Option<RemoteRange> {
        let fits = matches!(operation.kind, Kind::Write | Kind::Read)
            && operation.order.tag == Tag::Mo
            && !wrong
            && plan.extras.to_boards > 0;
        if !fits || !self.random.chance(plan.extras.to_boards) {
            return None;
        }
        let far = self.segment(operation.target_life.0, Role::Board)?;
        let (start, length) = range_of(far.length, plan.jetties, operation.jetty.value());
        let room = length.checked_sub(u64::from(operation.length))?;
        let at = start + self.random.below(room + 1);
        operation.remote = Some((far.key, at as usize));
        Some(RemoteRange {
            token_id: far.id.token_id(),
            token_value: far.token,
            address: far.address + at,
        })
    }

    /// Draws the remote range of a WRITE or READ, valid or invalid.
    fn remote(
        &mut self,
        world: &mut World,
        operation: &mut Operation,
        wrong: bool,
    ) -> Option<RemoteRange> {
        let peer = operation.target_life.0;
        let length = operation.length as usize;
        let is_read = operation.kind == Kind::Read;
        let far = if is_read {
            self.segment(peer, Role::Source)?
        } else {
            let role = self.random.pick(&[Role::Target, Role::Open]);
            self.segment(peer, role)?
        };
        let gap = self.random.below(GAP_MAX) as usize;
        let at = if is_read {
            self.random.below(far.length - length as u64 + 1) as usize
        } else {
            world.memory.reserve(far.key, length, gap)?
        };
        operation.remote = Some((far.key, at));
        let mut remote = RemoteRange {
            token_id: far.id.token_id(),
            token_value: far.token,
            address: far.address + at as u64,
        };
        if !wrong || operation.allowed == Statuses::of(&[Status::RemoteNoJetty]) {
            return Some(remote);
        }
        let mut status = Status::RemoteAccess;
        match self.random.below(6) {
            0 => remote.token_value ^= 1 << self.random.below(32),
            1 => remote.token_id = TokenId::new(200 + self.random.below(1 << 19) as u32),
            2 => {
                let past = far.length - length as u64 + 1 + self.random.below(1000);
                remote.address = far.address.checked_add(past)?;
            }
            3 => remote.address = far.address.checked_sub(1)?,
            4 if length > 0 => remote.address = u64::MAX - self.random.below(length as u64),
            _ => {
                // The other kind of segment, which does not permit this operation.
                let role = if is_read { Role::Target } else { Role::Source };
                let closed = self.segment(peer, role)?;
                remote = RemoteRange {
                    token_id: closed.id.token_id(),
                    token_value: closed.token,
                    address: closed.address,
                };
                operation.remote = Some((closed.key, 0));
                status = Status::RemoteRights;
            }
        }
        operation.allowed = Statuses::of(&[status]);
        Some(remote)
    }
}

impl Draft {
    /// Returns the operation with the fields drawn so far.
    fn begin(&self, target_life: Life, target_jetty: JettyId) -> Operation {
        Operation {
            life: self.life,
            target_life,
            channel: self.channel,
            jetty: self.jetty,
            target_jetty,
            kind: self.kind,
            local: (0, 0),
            remote: None,
            length: self.length,
            signaled: self.signaled,
            allowed: Statuses::of(&[Status::Success]),
            state: State::Pending,
            noticed: false,
            order: self.order,
            affected: 0,
            old: None,
            counted: false,
            hint: 0,
            aborted: false,
            missed: Trouble::default(),
        }
    }
}

/// Returns the work request; `None` for operations that are composed elsewhere.
fn work_of(operation: &Operation, remote: RemoteRange, immediate: u64) -> Option<Work> {
    let target =
        Target { jetty: operation.target_jetty, hint: operation.hint, ..Target::default() };
    Some(match operation.kind {
        Kind::Write => Work::Write { remote },
        Kind::WriteImmediate => Work::WriteImmediate { remote, target, immediate },
        Kind::Read => Work::Read { remote },
        Kind::Send => Work::Send { target },
        Kind::SendImmediate => Work::SendImmediate { target, immediate },
        Kind::Atomic | Kind::Load | Kind::Store => return None,
    })
}
