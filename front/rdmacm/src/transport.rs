//! Which protocol the queue pairs of a connection use. The messages of the connection manager are
//! the same for both providers, but a queue pair of one cannot reach one of the other.
//!
//! A device of the Fairway provider therefore marks the GUID in REQ and REP as that of a group. No
//! device has such a GUID, because no interface has a group's hardware address, and the peers of
//! RoCE do not read it.

use std::net::IpAddr;
use std::sync::Once;

use super::cm_device::CmDevice;

/// The bit of an EUI-64 that is set in the numbers of groups.
const GROUP: u64 = 1 << 56;

/// Prints only the first mismatch, because any host can cause one.
static EXPLAINED: Once = Once::new();

impl CmDevice {
    fn is_fairway(&self) -> bool {
        self.provider.name() == "fairway"
    }

    /// The GUID of this device for REQ and REP.
    pub(super) fn guid(&self) -> u64 {
        marked(self.device.device.guid(), self.is_fairway())
    }

    /// True if a peer that names this GUID has queue pairs that those of this device can reach.
    /// Otherwise the reason is printed.
    pub(super) fn is_compatible(&self, guid: u64, peer: IpAddr) -> bool {
        let is_same = is_marked(guid) == self.is_fairway();
        if !is_same {
            let (own, other) = match self.is_fairway() {
                true => ("fairway", "roce"),
                false => ("roce", "fairway"),
            };
            EXPLAINED.call_once(|| {
                eprintln!(
                    "fairway: no connection with {peer}: its queue pairs use the protocol of the \
                     provider {other}, and those of this program {own}; set FAIRWAY_PROVIDER to \
                     the same value for both programs"
                );
            });
        }
        is_same
    }
}

fn marked(guid: u64, is_fairway: bool) -> u64 {
    let plain = guid & !GROUP;
    if is_fairway { plain | GROUP } else { plain }
}

fn is_marked(guid: u64) -> bool {
    guid & GROUP != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_is_in_the_guids_of_one_provider_alone() {
        for guid in [0x0200_00ff_fe00_0001, u64::MAX, 1] {
            assert!(is_marked(marked(guid, true)) && !is_marked(marked(guid, false)));
            assert_eq!(marked(guid, true) & !GROUP, marked(guid, false));
        }
    }
}
