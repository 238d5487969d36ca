//! Operations of ranks that reach the NIC, and the NIC's completions.

use super::{Act, Event, Members};
use crate::endpoint::TOKEN;
use crate::group::GroupPlan;
use fairway_collectives::{Content, Header, Posting};
use fairway_ub::wire::{Instant, JettyId, Target};
use fairway_ub::{
    ChannelId, Completion, CompletionKind, LocalRange, OrderRequest, PostError, ReceiveRequest,
    RemoteRange, Status, UbDevice, Work, WorkRequest,
};

/// Returns the Jetty of the rank at a position of its host.
pub(crate) fn jetty_of(place: u32) -> JettyId {
    JettyId::new(1 + place)
}

impl Members {
    /// Posts the receive of one message, which has no bytes of its own.
    pub(super) fn post_receive(&self, nic: &mut UbDevice, at: u32) -> Result<(), PostError> {
        let local = LocalRange { segment: self.segment, offset: 0, length: 0 };
        nic.post_receive(jetty_of(at), &ReceiveRequest { id: u64::MAX, local })
    }

    /// Handles an operation that has reached the NIC.
    pub(super) fn command(
        &mut self,
        plan: &GroupPlan,
        nic: &mut UbDevice,
        now: u64,
        command: (u32, Posting<u64>),
    ) {
        if !self.blocked.is_empty() || !self.post(plan, nic, now, &command) {
            self.blocked.push_back(command);
        }
    }

    /// Posts an operation. Returns false if it has to wait until others have completed.
    fn post(
        &mut self,
        plan: &GroupPlan,
        nic: &mut UbDevice,
        now: u64,
        (at, posting): &(u32, Posting<u64>),
    ) -> bool {
        let (offset, length) = self.members[*at as usize].local(*at, posting.source);
        let jetty = jetty_of(plan.place(posting.to));
        let (target, immediate) = (Target { jetty, ..Target::default() }, posting.header.to_bits());
        let remote = |address| RemoteRange {
            token_id: self.segment.token_id(),
            token_value: TOKEN,
            address,
        };
        let request = WorkRequest {
            id: posting.id,
            channel: self.channel(plan.host(posting.to)),
            work: match posting.target {
                Some(goal) => Work::WriteImmediate { remote: remote(goal), target, immediate },
                None => Work::SendImmediate { target, immediate },
            },
            local: LocalRange { segment: self.segment, offset, length },
            signaled: posting.is_signaled(),
            order: OrderRequest::default(),
        };
        match nic.post(Instant::from_ps(now), jetty_of(*at), &request) {
            Ok(()) => {}
            Err(PostError::CompletionQueueFull | PostError::TooManyMessages) => return false,
            Err(PostError::NoChannel) => {
                self.counts.failed += 1;
                let lost = Act::Event(*at, Event::Lost(posting.to));
                self.schedule(now + plan.group.host_ps, lost);
            }
            Err(error) => panic!("{posting:?} cannot be posted: {error:?}"),
        }
        true
    }

    /// Returns the channel to another host.
    fn channel(&self, host: u32) -> ChannelId {
        let at = self.channels.binary_search_by_key(&host, |channel| channel.0);
        self.channels[at.expect("a channel for every pair")].1
    }

    /// Returns the rank that a completion concerns: the one whose Jetty is at the other end.
    fn rank_of(&self, plan: &GroupPlan, completion: &Completion) -> u32 {
        let at = self.hosts.binary_search_by_key(&completion.channel, |host| host.0);
        let host = self.hosts[at.expect("every channel leads to a host")].1;
        plan.on_host(host)[completion.remote_jetty.value() as usize - 1]
    }

    /// Handles the completion of an operation or a receive.
    pub(crate) fn completed(
        &mut self,
        plan: &GroupPlan,
        nic: &mut UbDevice,
        now: u64,
        completion: &Completion,
    ) {
        let at = completion.jetty.value() - 1;
        let peer = self.rank_of(plan, completion);
        let handled_at = now + plan.group.host_ps;
        let is_receive =
            matches!(completion.kind, CompletionKind::Receive | CompletionKind::ReceiveWrite);
        let event = if completion.status != Status::Success {
            // The NIC has given up the peer because its links failed for too long.
            self.counts.failed += 1;
            Event::Lost(peer)
        } else if is_receive {
            self.post_receive(nic, at).expect("the receive that was taken is free");
            let bits = completion.immediate.expect("every message has a header");
            let header = Header::from_bits(bits).expect("ranks send headers");
            let member = &mut self.members[at as usize];
            if let Some(places) = &mut member.places {
                let slot = member.outbox.slot_offset(peer, header.slot);
                places.arrive(header, slot, completion.bytes);
            }
            self.counts.messages += u64::from(header.content != Content::Freed);
            Event::Arrival { from: peer, header }
        } else {
            Event::Ended(completion.id)
        };
        self.schedule(handled_at, Act::Event(at, event));
        while let Some(command) = self.blocked.pop_front() {
            if !self.post(plan, nic, now, &command) {
                return self.blocked.push_front(command);
            }
        }
    }
}
