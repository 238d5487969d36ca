//! Jetties: the application's endpoints, and the receives posted to them.

use crate::api::{ExceptionMode, JettyState};
use crate::group::Group;
use crate::pool::Index;
use alloc::vec::Vec;
use fairway_wire::JettyId;

/// A Jetty: 20 bytes of protocol state (checked below), as OpenURMA counts it (paper Table 4).
/// Posted receives come from a pool shared by all Jetties.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jetty {
    /// The receive posted last, whose `next` is the first: a ring.
    pub(crate) last_receive: Option<Index<Receive>>,
    /// The secret that a remote peer must present to send to it.
    pub(crate) token_value: u32,
    /// Operations of this Jetty that have not completed.
    pub(crate) outstanding: u32,
    pub(crate) send_queue: u16,
    pub(crate) receive_queue: u16,
    /// The transaction sequence number of the next operation (INI_TASSN).
    pub(crate) transaction: u16,
    pub(crate) state: JettyState,
    pub(crate) exception: ExceptionMode,
}

const _: () = assert!(size_of::<Jetty>() == 20);

impl Jetty {
    pub(crate) const FREE: Jetty = Jetty {
        last_receive: None,
        token_value: 0,
        outstanding: 0,
        send_queue: 0,
        receive_queue: 0,
        transaction: 0,
        state: JettyState::Reset,
        exception: ExceptionMode::Continue,
    };
}

/// Where the receives of a Jetty, or of a name that messages are sent to, come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveSource {
    /// This Jetty: the Jetty itself, unless it takes those of another one.
    Jetty(JettyId),
    /// The members of this group.
    Group(Index<Group>),
}

impl ReceiveSource {
    /// By Jetty: the Jetty itself.
    pub(crate) fn own(jetties: u32) -> Vec<ReceiveSource> {
        (0..jetties).map(|number| ReceiveSource::Jetty(JettyId::new(number))).collect()
    }
}

/// A posted receive, in its Jetty's first-in first-out list or held by an arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) id: u64,
    pub(crate) offset: u64,
    pub(crate) segment: u32,
    pub(crate) length: u32,
    /// The next receive of the ring or list that holds this one.
    pub(crate) next: Option<Index<Receive>>,
    /// While the receive is set aside: the sequence number of its message.
    pub(crate) sequence: u16,
}
