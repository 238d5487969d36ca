//! Management datagrams for a provider whose queue pairs do not use RoCE: connection managers still
//! exchange them by port 4791.

use std::sync::Arc;

use fairway_roce::Event;
use fairway_ub::CompletionQueueId;

use super::roce::Endpoint;
use super::slot::Slot;
use super::{Listener, Management, ProviderError, ProviderOptions, Routed};

/// A listener that translates the numbers of addresses.
struct Renumbering<N> {
    listener: Arc<dyn Listener>,
    number: N,
}

impl<N: Fn(&Management<'_>) -> u64 + Send + Sync> Listener for Renumbering<N> {
    fn completion(&self, _queue: CompletionQueueId) {}

    fn event(&self, _event: Event) {}

    fn management(&self, datagram: &Management<'_>) -> Routed {
        let source = (self.number)(datagram);
        self.listener.management(&Management { source, ..*datagram })
    }
}

/// Opens an endpoint for the process of this slot. `number` returns the number that the provider
/// uses for the address of a datagram's sender.
pub(crate) fn open(
    options: &ProviderOptions,
    slot: Slot,
    listener: Arc<dyn Listener>,
    number: impl Fn(&Management<'_>) -> u64 + Send + Sync + 'static,
) -> Result<Endpoint, ProviderError> {
    Endpoint::open(options, slot, Arc::new(Renumbering { listener, number }))
}
