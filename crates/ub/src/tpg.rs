//! TP channel groups (UB: TPG): channels to one node that carry the operations of all Jetties
//! together. Each has windows, paths and packet numbers of its own; the transaction layer's state
//! of the node (numbers, trackers, streams of puts) belongs to the group, and is found by its first
//! channel, the leader. A channel that was opened alone is a group of one.

use crate::api::{ChannelId, Status};
use crate::names::ChannelIndex;
use alloc::vec::Vec;
use fairway_policy::MemoryVisitor;

/// Most channels of a group.
pub(crate) const MEMBERS_MAX: usize = 16;

/// Weight of an operation in addition to its bytes, in bytes: about the cost of its packets'
/// headers and their processing.
const OPERATION_WEIGHT: u64 = 1024;

/// A group whose leader is open, or one of whose channels has not been freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelGroup {
    members: [u16; MEMBERS_MAX],
    count: u8,
    /// The member that took the last operation.
    current: u8,
    /// Members whose end has not been reported.
    open: u8,
    /// Members that have not been freed.
    pub(crate) used: u8,
    /// A bit for each member, by its place: the group goes on without it.
    retired: u16,
    /// The member that sent the last notice about a retired one.
    notifier: u8,
    /// True if the peer requested order when there was no record for it.
    pub(crate) orders_denied: bool,
    /// Number of packets that were set aside, whose turn has come, and that have not been placed.
    draining: u32,
    /// True if a channel of the group waits for those packets before it sends.
    waits_for_drain: bool,
    /// True if the group is being closed, and payload whose turn had come is dropped: no channel of
    /// the group may send an acknowledgement any more.
    pub(crate) is_cut_off: bool,
}

/// All groups, and the load of each channel.
#[derive(Debug)]
pub(crate) struct ChannelGroups {
    /// By the index of the leader.
    groups: Vec<ChannelGroup>,
    /// By channel: the weight of its operations that are not done.
    loads: Vec<u64>,
    /// Channels that are silent or retired, to which the device has to attend.
    attention: Vec<ChannelIndex>,
    /// Groups one of whose channels has ended, and how: the others end with it.
    ended: Vec<(ChannelId, Status)>,
    /// True while no peer may be declared dead.
    teardown_suspended: bool,
    /// True if a peer would have been declared dead since [`Self::suspend_teardown`] was called.
    end_wanted: bool,
}

impl ChannelGroup {
    /// Bytes of the record and of a channel's load.
    pub(crate) const BYTES: usize = size_of::<ChannelGroup>() + size_of::<u64>();

    const EMPTY: ChannelGroup = ChannelGroup {
        members: [0; MEMBERS_MAX],
        count: 0,
        current: 0,
        open: 0,
        used: 0,
        retired: 0,
        notifier: 0,
        orders_denied: false,
        draining: 0,
        waits_for_drain: false,
        is_cut_off: false,
    };

    /// Counts a packet that was set aside and whose turn has come.
    pub(crate) fn begin_draining(&mut self) {
        self.draining += 1;
    }

    /// Counts a packet that was set aside as placed, or dropped. True if it was the last one, and a
    /// channel of the group waited for that.
    pub(crate) fn end_draining(&mut self) -> bool {
        self.draining -= 1;
        self.draining == 0 && core::mem::take(&mut self.waits_for_drain)
    }

    /// True if packets that were set aside, and whose turn has come, have not been placed yet.
    /// [`Self::end_draining`] then reports when they are.
    pub(crate) fn awaits_draining(&mut self) -> bool {
        let draining = self.draining > 0;
        self.waits_for_drain |= draining;
        draining
    }

    /// The indices of the group's channels that are not retired, in the order in which they joined.
    pub(crate) fn open_members(&self) -> impl Iterator<Item = ChannelIndex> + use<> {
        let retired = self.retired;
        let is_open = move |(place, _): &(usize, ChannelIndex)| retired >> place & 1 == 0;
        self.members().enumerate().filter(is_open).map(|(_, member)| member)
    }

    fn is_retired(&self, member: u8) -> bool {
        self.retired >> member & 1 != 0
    }

    /// The indices of the group's channels, the leader first.
    pub(crate) fn members(&self) -> impl Iterator<Item = ChannelIndex> + use<> {
        let members = self.members.into_iter().take(usize::from(self.count));
        members.map(|member| ChannelIndex::of(u32::from(member)))
    }
}

impl ChannelGroups {
    /// Names the memory of the first groups.
    pub(crate) fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.element(&self.groups, 0);
        visitor.element(&self.groups, 1);
    }

    pub(crate) fn new(channels: u32) -> Self {
        ChannelGroups {
            groups: alloc::vec![ChannelGroup::EMPTY; channels as usize],
            loads: alloc::vec![0; channels as usize],
            attention: Vec::with_capacity(channels as usize),
            ended: Vec::with_capacity(MEMBERS_MAX),
            teardown_suspended: false,
            end_wanted: false,
        }
    }

    #[inline]
    pub(crate) fn get(&self, leader: ChannelIndex) -> &ChannelGroup {
        &self.groups[leader.number() as usize]
    }

    pub(crate) fn get_mut(&mut self, leader: ChannelIndex) -> &mut ChannelGroup {
        &mut self.groups[leader.number() as usize]
    }

    /// Adds a channel to the group of `leader`, which may be the channel itself. False if the group
    /// is full.
    pub(crate) fn join(&mut self, leader: ChannelIndex, channel: ChannelIndex) -> bool {
        let group = &mut self.groups[leader.number() as usize];
        if leader == channel {
            *group = ChannelGroup::EMPTY;
        }
        let Some(member) = group.members.get_mut(usize::from(group.count)) else { return false };
        *member = channel.number() as u16;
        group.count += 1;
        group.open += 1;
        group.used += 1;
        self.loads[channel.number() as usize] = 0;
        true
    }

    /// True if a channel is the only one of its group, and has no operation that is not done.
    pub(crate) fn is_alone(&self, channel: ChannelIndex) -> bool {
        let index = channel.number() as usize;
        let ChannelGroup { count, draining, is_cut_off, .. } = self.groups[index];
        count == 1 && draining == 0 && !is_cut_off && self.loads[index] == 0
    }

    /// True if a group has more than one member that is not retired.
    pub(crate) fn has_others(&self, leader: ChannelIndex) -> bool {
        self.get(leader).open_members().nth(1).is_some()
    }

    /// Excludes a member from those that carry operations.
    pub(crate) fn retire(&mut self, leader: ChannelIndex, channel: ChannelIndex) {
        let place = self.get(leader).members().position(|member| member == channel);
        if let Some(place) = place {
            self.get_mut(leader).retired |= 1 << place;
            self.close_one(leader);
        }
    }

    /// The first member that is not retired.
    pub(crate) fn first_open(&self, leader: ChannelIndex) -> Option<ChannelIndex> {
        self.get(leader).open_members().next()
    }

    /// The member that sends the next notice: each that is not retired in turn, because one of them
    /// may be dying.
    pub(crate) fn next_notifier(&mut self, leader: ChannelIndex) -> Option<ChannelIndex> {
        let group = self.get_mut(leader);
        group.notifier = group.notifier.wrapping_add(1);
        let count = group.open_members().count().max(1);
        group.open_members().nth(usize::from(group.notifier) % count)
    }

    /// Requests that the device attend to a channel.
    pub(crate) fn request_attention(&mut self, channel: ChannelIndex) {
        if !self.attention.contains(&channel) {
            self.attention.push(channel);
        }
    }

    #[inline]
    pub(crate) fn needs_attention(&self) -> bool {
        !self.attention.is_empty()
    }

    /// Returns the next channel that needs attention.
    pub(crate) fn pop_attention(&mut self) -> Option<ChannelIndex> {
        self.attention.pop()
    }

    /// Counts a member whose end has been reported. True if it was the last.
    pub(crate) fn close_one(&mut self, leader: ChannelIndex) -> bool {
        let group = &mut self.groups[leader.number() as usize];
        group.open = group.open.saturating_sub(1);
        group.open == 0
    }

    /// Records that one channel of a group has ended, so that the others have to end.
    pub(crate) fn end(&mut self, leader: ChannelId, status: Status) {
        self.ended.push((leader, status));
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Returns the next group that [`Self::end`] has recorded.
    #[inline]
    pub(crate) fn pop_ended(&mut self) -> Option<(ChannelId, Status)> {
        self.ended.pop()
    }

    /// Sets whether peers may be declared dead. True if a peer would have been since the last call.
    pub(crate) fn suspend_teardown(&mut self, suspended: bool) -> bool {
        self.teardown_suspended = suspended;
        core::mem::take(&mut self.end_wanted)
    }

    /// True if a peer may be declared dead now. Otherwise [`Self::suspend_teardown`] reports the
    /// attempt.
    pub(crate) fn try_end(&mut self) -> bool {
        self.end_wanted |= self.teardown_suspended;
        !self.teardown_suspended
    }

    /// The member that is to take an operation: the one with the least load, unless the one that
    /// took the last operation has hardly more. (Successive operations then mostly arrive in
    /// order.)
    #[inline]
    pub(crate) fn choose(&mut self, leader: ChannelIndex, slack: u64) -> ChannelIndex {
        match self.get(leader).count {
            0 | 1 => leader,
            _ => self.choose_among(leader, slack),
        }
    }

    fn choose_among(&mut self, leader: ChannelIndex, slack: u64) -> ChannelIndex {
        let group = &mut self.groups[leader.number() as usize];
        let load = |member: u8| self.loads[usize::from(group.members[usize::from(member)])];
        let open = (0..group.count).filter(|member| !group.is_retired(*member));
        let least = open.min_by_key(|member| load(*member)).unwrap_or_default();
        let exceeds = load(group.current) > load(least).saturating_add(slack);
        if exceeds || group.is_retired(group.current) {
            group.current = least;
        }
        ChannelIndex::of(u32::from(group.members[usize::from(group.current)]))
    }

    /// The member with the least load.
    pub(crate) fn least(&self, leader: ChannelIndex) -> ChannelIndex {
        let load = |member: &ChannelIndex| self.loads[member.number() as usize];
        self.get(leader).open_members().min_by_key(load).unwrap_or(leader)
    }

    /// Adds an operation of `bytes` bytes to a channel's load.
    #[inline]
    pub(crate) fn give(&mut self, channel: ChannelIndex, bytes: u32) {
        self.loads[channel.number() as usize] += OPERATION_WEIGHT + u64::from(bytes);
    }

    /// Removes an operation that is done from a channel's load.
    #[inline]
    pub(crate) fn take(&mut self, channel: ChannelIndex, bytes: u32) {
        let load = &mut self.loads[channel.number() as usize];
        *load = load.saturating_sub(OPERATION_WEIGHT + u64::from(bytes));
    }
}
