//! Management datagrams in a process whose program uses no connection manager.

use std::sync::Mutex;

use fairway_rdma::{Carrier, Gid, Management, Routed};
use fairway_roce::cm::{Refuser, Route, route};

use crate::guard::lock;

/// Forwards a management datagram in a process that uses no connection manager, or refuses it.
pub(crate) fn unattended(carrier: Option<&dyn Carrier>, datagram: &Management<'_>) -> Routed {
    match (route(datagram.bytes), carrier) {
        (Route::Slot(slot), _) if datagram.deliverable => Routed::Slot(slot),
        (Route::Service(service), _) if datagram.deliverable => Routed::Service(service),
        (Route::Slot(_) | Route::Service(_), Some(carrier)) => {
            refuse_to(carrier, datagram);
            Routed::Here
        }
        _ => Routed::Here,
    }
}

/// The answers to datagrams for processes that do not exist.
static REFUSER: Mutex<Refuser> = Mutex::new(Refuser::new());

/// Refuses a datagram whose process does not exist.
pub fn refuse_to(carrier: &dyn Carrier, datagram: &Management<'_>) {
    let is_local = carrier.gids().contains(&Gid::from(datagram.from));
    let answer = lock(&REFUSER).handle_datagram(datagram.source, is_local, datagram.bytes);
    if let Some(answer) = answer {
        // What can't be sent is lost, and asked again.
        let _ = carrier.send_management(datagram.source, &answer);
    }
}
