//! Management datagrams for a carrier whose queue pairs are not RoCE's: connection managers
//! exchange them by port 4791 all the same.
//!
//! It is a RoCE carrier on the other's slot, of which nothing but this is used.

use std::net::IpAddr;
use std::sync::Arc;

use fairway_engine::CompletionQueueId;
use fairway_roce::Event;

use super::slot::Slot;
use super::{
    Carrier, CarrierError, CarrierOptions, Listener, Management, Routed, ServiceClaim, roce,
};

/// Sends and takes management datagrams, and has the slot.
pub(crate) struct Office {
    carrier: Arc<dyn Carrier>,
}

/// Translates the numbers of addresses.
struct Clerk<N> {
    listener: Arc<dyn Listener>,
    number: N,
}

impl<N: Fn(IpAddr) -> u64 + Send + Sync> Listener for Clerk<N> {
    fn completion(&self, _queue: CompletionQueueId) {}

    fn event(&self, _event: Event) {}

    fn management(&self, datagram: &Management<'_>) -> Routed {
        let source = (self.number)(datagram.from);
        self.listener.management(&Management { source, ..*datagram })
    }
}

impl Office {
    /// Opens it, for the process of this slot. `number` is what the carrier that it is for calls an
    /// address.
    pub(crate) fn open(
        options: &CarrierOptions,
        slot: Slot,
        listener: Arc<dyn Listener>,
        number: impl Fn(IpAddr) -> u64 + Send + Sync + 'static,
    ) -> Result<Office, CarrierError> {
        let carrier = roce::open_on(options, slot, Arc::new(Clerk { listener, number }))?;
        Ok(Office { carrier })
    }

    /// The slot.
    pub(crate) fn slot(&self) -> u8 {
        self.carrier.slot()
    }

    /// As [`Carrier::send_management`].
    pub(crate) fn send(&self, to: IpAddr, bytes: &[u8; 256]) -> Result<(), CarrierError> {
        self.carrier.send_management(self.carrier.resolve(to.into())?, bytes)
    }

    /// As [`Carrier::claim_service`].
    pub(crate) fn claim_service(
        &self,
        service: u64,
    ) -> Result<Box<dyn ServiceClaim>, CarrierError> {
        self.carrier.claim_service(service)
    }
}
