//! Slots that ranks of one host share: a rank copies its messages into the slots of another one,
//! and only notifies it by a packet.
//!
//! Behind the slots of a rank is a byte for each other rank, which that rank sets when it has
//! mapped them. The owner then expects that all bytes from it come through slots, or are read from
//! its memory if the byte says that the other rank can do that (`lending`). A rank whose
//! packets must take the network, because it is emulated or because the user wants it, neither maps
//! slots nor shares its own.

use crate::error::Error;
use crate::member::Member;
use crate::options::Options;
use crate::setup::Connections;
use fairway::{Context, Memory, Segment};

/// What another rank can do, as its byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearness {
    /// It has mapped the slots.
    Mapped = 1,
    /// It can also read what their owner lends.
    Reads = 2,
}

/// Memory for the slots of a rank, and for the bytes behind them.
pub(crate) fn slots(ranks: u32, options: &Options, context: &Context) -> Result<Memory, Error> {
    let bytes = (marks(ranks, options) + u64::from(ranks)) as usize;
    let memory = if context.datapath().shares_memory() {
        // Other ranks cannot map memory that is not shared, so their messages take the network.
        Memory::shared(bytes).or_else(|_| Memory::zeroed(bytes))
    } else {
        Memory::zeroed(bytes)
    };
    Ok(memory.map_err(fairway::Error::from)?)
}

/// Offset of the bytes behind the slots.
fn marks(ranks: u32, options: &Options) -> u64 {
    u64::from(ranks) * u64::from(options.slots) * u64::from(options.slot_bytes)
}

/// Maps the slots of the ranks on this host.
pub(crate) fn map(
    connections: &mut Connections,
    own: u32,
    members: &[Member],
    options: &Options,
    context: &Context,
) {
    if !context.datapath().shares_memory() {
        return;
    }
    let mark = marks(connections.ranks(), options) + u64::from(own);
    for (rank, member) in (0..).zip(members) {
        let Some(connection) = connections.get_mut(rank) else { continue };
        if member.host != members[own as usize].host {
            continue;
        }
        // Without the mapping, messages take the network.
        let memory = connection.peer.memory(connection.slots).ok();
        let can_read = options.lend_from < u32::MAX && member.seal.can_read();
        connection.seal = can_read.then_some(member.seal);
        let nearness = if can_read { Nearness::Reads } else { Nearness::Mapped };
        connection.near = memory.filter(|memory| memory.copy_in(mark, &[nearness as u8]));
    }
}

/// What the rank `from` can do, if it has mapped the slots of this one.
pub(crate) fn nearness_of(
    from: u32,
    slots: &Segment,
    ranks: u32,
    options: &Options,
) -> Result<Option<Nearness>, Error> {
    let mut mark = [0];
    slots.read_at(marks(ranks, options) + u64::from(from), &mut mark)?;
    let known = [Nearness::Mapped, Nearness::Reads];
    Ok(known.into_iter().find(|nearness| mark == [*nearness as u8]))
}
