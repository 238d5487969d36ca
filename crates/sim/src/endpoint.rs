//! Addresses, keys and mailboxes that all simulated hosts share by convention.

use fairway_ub::wire::Cna;
use fairway_ub::{MailboxConfig, MailboxId, Steering, Threshold, UbDevice, WhenEmpty};

/// Messages of one host that may be in flight at once; further ones wait at the host.
pub(crate) const MESSAGES: u32 = 512;

/// The same for a host with more than [`PEERS_MANY`] peers. Each message in flight is then on a
/// channel of its own, whose state takes some kilobytes, and thousands of such hosts have to fit
/// into memory.
pub(crate) const MESSAGES_OF_MANY: u32 = 256;
pub(crate) const PEERS_MANY: u32 = 1024;

/// Bits of an offset within one flow's piece of memory. Each flow has a piece of this size at its
/// destination, so the upper bits of an offset name the flow.
pub(crate) const SLOT_BITS: u32 = 36;

/// The UB token value of every segment.
pub(crate) const TOKEN: u32 = 0x5EC2_E700;

/// Result of posting a flow to a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// The NIC accepted the flow.
    Now,
    /// The flow has to wait until others have completed.
    Later,
    /// The flow cannot be sent because the NIC has given up its peer.
    Never,
}

/// Returns the address of a host's NIC.
pub(crate) fn address(host: u32) -> Cna {
    Cna::new(host + 1)
}

/// Returns the host whose NIC has this address.
#[inline]
pub(crate) fn host_of(cna: Cna) -> u32 {
    cna.value() - 1
}

/// Creates a mailbox in which every put fills an epoch.
///
/// # Panics
/// If the NIC has no mailbox left.
pub(crate) fn create_mailbox(nic: &mut UbDevice, address: u64) -> MailboxId {
    let config = MailboxConfig {
        address: Some(address),
        key: 0,
        threshold: Threshold::Operations(1),
        steering: Steering::Sender,
        when_empty: WhenEmpty::Wait,
        retired: 0,
    };
    nic.create_mailbox(&config).expect("limits are made for this program")
}
