//! The packets of the requester's sends.

use super::api::Work;
use super::queue_pair::QueuePair;
use super::work::{Send, send_operation};
use fairway_device::ScatterList;
use fairway_wire::roce::{AtomicEth, Deth, Operation, Reth, WriteFragment};

impl QueuePair {
    /// Packet `position` of a send, and the local bytes of its payload.
    pub(crate) fn request(
        &self,
        send: &Send,
        position: u32,
        last: bool,
    ) -> (Operation, ScatterList) {
        let offset = position * self.mtu;
        let left = send.length - offset.min(send.length);
        let gather = send.local.slice(offset, left.min(self.mtu));
        let first = position == 0;
        let service = self.service();
        let operation = match send.work {
            Work::Send { tail } => send_operation(service, first, last, tail),
            Work::Write { remote, immediate } => {
                let (address, r_key) = (remote.address, remote.r_key);
                let reth = match send.split {
                    true => {
                        let address = address.wrapping_add(u64::from(offset));
                        Reth { address, r_key, length: gather.length() }
                    }
                    false => Reth { address, r_key, length: send.length },
                };
                let fragment = match (first || send.split, last || send.split) {
                    (true, true) => WriteFragment::Only(reth, immediate),
                    (true, false) => WriteFragment::First(reth),
                    (false, false) => WriteFragment::Middle,
                    (false, true) => WriteFragment::Last(immediate),
                };
                Operation::Write { service, fragment }
            }
            Work::Read { remote } => {
                let address = remote.address.wrapping_add(u64::from(offset));
                let length = left.min(self.requester.taken(send, position) * self.mtu);
                let reth = Reth { address, r_key: remote.r_key, length };
                return (Operation::ReadRequest(reth), ScatterList::EMPTY);
            }
            Work::CompareSwap { remote, compare, swap } => {
                let (address, r_key) = (remote.address, remote.r_key);
                let atomic = AtomicEth { address, r_key, swap_or_add: swap, compare };
                return (Operation::CompareSwap(atomic), ScatterList::EMPTY);
            }
            Work::FetchAdd { remote, add } => {
                let (address, r_key) = (remote.address, remote.r_key);
                let atomic = AtomicEth { address, r_key, swap_or_add: add, compare: 0 };
                return (Operation::FetchAdd(atomic), ScatterList::EMPTY);
            }
            Work::Datagram { q_key, immediate, .. } => {
                Operation::Datagram { deth: Deth { q_key, source: self.number }, immediate }
            }
        };
        (operation, gather)
    }
}
