//! The oracle of channels that die while their groups go on.

use crate::finding::Finding;
use crate::node::ChannelNote;
use crate::operation::Life;
use crate::world::World;
use fairway_ub::wire::Duration;
use fairway_ub::{ChannelId, Profile};
use std::collections::BTreeSet;

/// Which channels have been retired, and whether groups may end although one of their channels
/// still hears from the peer.
#[derive(Debug, Default)]
pub(crate) struct RetirementOracle {
    retired: BTreeSet<(Life, ChannelId)>,
    /// Groups, by their leaders, one of whose channels has been retired.
    groups: BTreeSet<(Life, ChannelId)>,
    /// Operations are WRITEs and READs without order, so that every group can go on.
    plain: bool,
}

impl RetirementOracle {
    pub(crate) fn new(plain: bool) -> RetirementOracle {
        RetirementOracle { plain, ..RetirementOracle::default() }
    }

    pub(crate) fn is_retired(&self, life: Life, channel: ChannelId) -> bool {
        self.retired.contains(&(life, channel))
    }

    /// Checks the report that a channel is retired: it has been silent, or the peer has retired it
    /// before.
    pub(crate) fn retired(
        &mut self,
        world: &World,
        node: usize,
        (leader, channel): (ChannelId, ChannelId),
        profile: &Profile,
    ) -> Result<(), Finding> {
        let life = (node, world.nodes[node].incarnation);
        let note = world.nodes[node].channels[channel.index()].as_ref();
        let Some(note) = note.filter(|note| note.id == channel && note.leader == leader) else {
            return Err(format!("node {node}: {channel:?} of {leader:?} was never opened").into());
        };
        if !self.retired.insert((life, channel)) {
            return Err(format!("node {node}: {channel:?} is retired twice").into());
        }
        self.groups.insert((life, leader));
        let silence = world.now.since(note.last_received_at);
        let by_peer = self.has_lost_one(note);
        if !note.terms.retires || (silence < profile.peer_dead && !by_peer) {
            return Err(format!(
                "node {node}: {channel:?} is retired {} us after a packet of it",
                silence.as_us()
            )
            .into());
        }
        Ok(())
    }

    /// True if the peer has retired a channel of the group.
    fn has_lost_one(&self, note: &ChannelNote) -> bool {
        self.groups.contains(&((note.peer, note.peer_incarnation), note.peer_leader))
    }

    /// Checks the report that the peer of the group that `first` leads is dead.
    pub(crate) fn check_death(
        &self,
        world: &World,
        node: usize,
        first: &ChannelNote,
        profile: &Profile,
    ) -> Result<(), Finding> {
        let life = (node, world.nodes[node].incarnation);
        let notes = world.nodes[node].channels.iter().flatten();
        let of_group = notes.filter(|other| other.leader == first.id);
        let left = of_group.filter(|other| !self.is_retired(life, other.id));
        let silences = left.map(|note| world.now.since(note.last_received_at));
        let silence = match first.terms.retires && self.plain {
            true => silences.min(),
            false => silences.max(),
        };
        let silence = silence.unwrap_or_default();
        // The peer may have retired a channel without which this side cannot go on.
        let by_peer = first.terms.retires && !self.plain && self.has_lost_one(first);
        if silence < profile.peer_dead && !by_peer {
            return Err(format!(
                "node {node}: the peer of {:?} is called dead {} us after a packet of it",
                first.id,
                silence.as_us()
            )
            .into());
        }
        Ok(())
    }
}

/// Longest time that a channel may be silent before it is given up. Where the group goes on without
/// it, another channel has to be heard first, and it is probed once more.
pub(crate) fn silence_max(note: &ChannelNote, profile: &Profile) -> Duration {
    let Profile { peer_dead, keep_alive, .. } = *profile;
    match note.terms.retires {
        true => peer_dead.times(2).saturating_add(keep_alive.times(4)),
        false => peer_dead.saturating_add(keep_alive),
    }
}
