//! What hosts know of each other without asking: addresses, secrets, mailboxes.

use fairway_engine::wire::Cna;
use fairway_engine::{MailboxConfig, MailboxId, Nic, Steering, Threshold, WhenEmpty};

/// Messages of one host that may be under way at once; more wait at the host.
pub(crate) const MESSAGES: u32 = 512;

/// The secret of every segment.
pub(crate) const TOKEN: u32 = 0x5EC2_E700;

/// What became of a flow that was handed to a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// The NIC has it.
    Now,
    /// It has to wait until others have completed.
    Later,
    /// Its peer was given up.
    Never,
}

/// The address of a host's NIC.
pub(crate) fn address(host: u32) -> Cna {
    Cna::new(host + 1)
}

/// The host whose NIC has an address.
#[inline]
pub(crate) fn host_of(cna: Cna) -> u32 {
    cna.value() - 1
}

/// A mailbox in which every put is an epoch.
///
/// # Panics
/// If the NIC has too few.
pub(crate) fn create_mailbox(nic: &mut Nic, address: u64) -> MailboxId {
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
