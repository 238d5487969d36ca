//! Management datagrams in a process whose program uses no connection manager.

use std::sync::Mutex;

use fairway_rdma::{Gid, Management, Provider, Routed};
use fairway_roce::cm::{Refuser, Route, route};

use crate::guard::lock;

/// Forwards a management datagram in a process that uses no connection manager, or refuses it.
pub(crate) fn unattended(provider: Option<&dyn Provider>, datagram: &Management<'_>) -> Routed {
    match (route(datagram.bytes), provider) {
        (Route::Slot(slot), _) if datagram.deliverable => Routed::Slot(slot),
        (Route::Service(service), _) if datagram.deliverable => Routed::Service(service),
        (Route::Slot(_) | Route::Service(_), Some(provider)) => {
            refuse_to(provider, datagram);
            Routed::Here
        }
        _ => Routed::Here,
    }
}

/// State of the answers to datagrams for processes that do not exist.
static REFUSER: Mutex<Refuser> = Mutex::new(Refuser::new());

/// Refuses a datagram whose destination process does not exist.
pub fn refuse_to(provider: &dyn Provider, datagram: &Management<'_>) {
    let is_local = provider.gids().contains(&Gid::from(datagram.from));
    let answer = lock(&REFUSER).handle_datagram(datagram.source, is_local, datagram.bytes);
    if let Some(answer) = answer {
        // An answer that can't be sent is lost, and the peer repeats its request.
        let _ = provider.send_management(datagram.source, &answer);
    }
}
