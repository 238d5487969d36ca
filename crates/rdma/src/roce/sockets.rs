//! The sockets of a provider: for each address one that only its slot uses, and one on RoCE's port,
//! which all processes of the host share.
//!
//! All packets are sent from the slot's own socket: one source port, and so one path through
//! networks that choose paths by it.

use ::fairway::Dscp;
use std::io;

use fairway_port::{Datapath, Impaired, UdpPort};
use fairway_runtime::{clock, ns};

use super::routes::Local;
use crate::slot::Slot;
use crate::{ProviderError, ProviderOptions, ROCE_PORT, roce_port};

/// Size of the send and receive buffers to request, in bytes.
const BUFFER_BYTES: usize = 4 << 20;

/// Sockets that were opened for a process, and its slot.
pub(super) struct Opened {
    pub(super) slot: Slot,
    pub(super) datapath: Box<dyn Datapath>,
    pub(super) locals: Vec<Local>,
    /// True if the kernel segments trains.
    pub(super) segmentation: bool,
    /// Code points of packets.
    pub(super) dscp: Dscp,
}

/// Opens the sockets, on a slot that is claimed with them.
pub(super) fn open(options: &ProviderOptions) -> Result<Opened, ProviderError> {
    let (slot, opened) = Slot::claim(|number| match private(options, number) {
        Ok(opened) => Ok(Some(opened)),
        // Another program uses a port of this slot.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(ProviderError::Io("open the UDP sockets", error)),
    })?;
    Ok(complete(options, slot, opened))
}

/// Opens the sockets on this slot.
pub(super) fn open_on(options: &ProviderOptions, slot: Slot) -> Result<Opened, ProviderError> {
    let opened = private(options, slot.number());
    let opened = opened.map_err(|error| ProviderError::Io("open the UDP sockets", error))?;
    Ok(complete(options, slot, opened))
}

fn complete(
    options: &ProviderOptions,
    slot: Slot,
    (mut port, mut locals): (UdpPort, Vec<Local>),
) -> Opened {
    for local in &mut locals {
        // Without this socket, communication within this host still works.
        local.public =
            port.add_common_socket(options.socket_address(local.address.ip(), ROCE_PORT)).ok();
    }
    // An emulated network rebuilds trains, so the kernel would number packets differently from what
    // their ICRCs were computed for.
    if !options.segmentation || options.emulate.is_some() {
        port.disable_segmentation();
    }
    let segmentation = port.features().segmentation;
    let datapath: Box<dyn Datapath> = match &options.emulate {
        None => Box::new(port),
        Some((spec, seed)) => Box::new(Impaired::new(port, spec, *seed, ns(clock::now()))),
    };
    let dscp = options.dscp.unwrap_or_default();
    Opened { slot, datapath, locals, segmentation, dscp }
}

/// Opens the sockets of a slot.
fn private(options: &ProviderOptions, slot: u8) -> io::Result<(UdpPort, Vec<Local>)> {
    let mut locals = Vec::new();
    let first = options.socket_address(options.addresses[0], roce_port(slot));
    let mut port = UdpPort::bind_one(first, BUFFER_BYTES)?;
    locals.push(Local { address: first, private: 0, public: None });
    for ip in &options.addresses[1..] {
        let address = options.socket_address(*ip, roce_port(slot));
        let private = port.add_socket(address)?;
        locals.push(Local { address, private, public: None });
    }
    // Other hosts send to RoCE's port only. Packets that arrive at these sockets are assumed to
    // come from a process of this host.
    for local in &locals {
        port.keep_to_this_host(local.private)?;
    }
    Ok((port, locals))
}
