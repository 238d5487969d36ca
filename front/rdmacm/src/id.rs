//! `rdma_cm_id`.

use std::net::{IpAddr, SocketAddr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fairway_rdma::Gid;
use fairway_roce::cm::ConnectionId;
use fairway_wire::Qpn;
use fairway_wire::roce::cm::PortSpace;
use libc::{c_int, c_void};

use super::abi::*;
use super::cm_device::CmDevice;
use super::note::Queue;
use super::port::Port;
use super::{claims, inherited};
use fairway_verbs::abi::{
    Field, IBV_QPT_RC, IBV_QPT_UD, ibv_context, ibv_gid, ibv_pd, ibv_qp, ibv_qp_cap, zeroed,
};
use fairway_verbs::guard::{EINVAL, Result, UnackedEvents, lock};
use fairway_verbs::pointer::{Handle, Ptr};

/// The default partition, the only one.
pub(super) const P_KEY: u16 = 0xffff;

/// Object behind an `rdma_cm_id` that a program holds.
#[repr(C)]
pub(crate) struct Id {
    pub(super) base: rdma_cm_id,
    pub(super) core: Arc<Core>,
}

/// Parameters of an id's future queue pairs.
#[derive(Clone, Copy)]
pub(super) struct Template {
    pub(super) cap: ibv_qp_cap,
    pub(super) qp_context: usize,
    pub(super) sq_sig_all: c_int,
    pub(super) queues: [usize; 3],
}

/// State of an id that programs do not see. Events refer to it.
pub(super) struct Core {
    /// Address of its [`Id`].
    pub(super) id: AtomicUsize,
    /// Events that were delivered to the program and not acknowledged.
    pub(super) unacked: UnackedEvents,
    pub(super) inner: Mutex<Inner>,
}

/// State that changes, behind the lock.
pub(super) struct Inner {
    /// Queue that receives the id's events.
    pub(super) queue: Queue,
    /// Whether calls wait for the operations that they begin; the queue then belongs to this id
    /// alone.
    pub(super) is_synchronous: bool,
    pub(super) space: PortSpace,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) port: Option<Port>,
    /// CM device that the id uses.
    pub(super) cm_device: Option<Arc<CmDevice>>,
    pub(super) connection: Option<ConnectionId>,
    /// The service that the id listens for.
    pub(super) service: Option<claims::Use>,
    pub(super) agreed: Agreed,
    pub(super) options: Options,
    /// Queue pair parameters from `rdma_create_ep`, for incoming connections.
    pub(super) template: Option<Template>,
    /// Private data that precede those of `rdma_connect` (`rdma_create_ep`).
    pub(super) greeting: Vec<u8>,
    /// Whether the connection has ended; the program has received the event or will.
    pub(super) is_over: bool,
    /// Whether a peer has requested this connection and the program has not accepted it yet. Until
    /// then the program receives no event for this id, as in Linux: the id still has the context of
    /// the listener, so a program could not distinguish their events. Accepting fails if the peer
    /// has given up.
    pub(super) is_unaccepted: bool,
    /// The queue pair that is connected.
    pub(super) own_queue_pair: Option<Qpn>,
    /// Whether the program has requested the disconnection itself.
    pub(super) leaves: bool,
}

/// Connection parameters that both ends have agreed on, or that one has requested.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    /// Number of the peer's queue pair.
    pub(super) queue_pair: u32,
    /// First PSN that this end sends, which the peer chose.
    pub(super) remote_psn: u32,
    /// First PSN that the peer sends, which this end chose.
    pub(super) psn: u32,
    /// Payload bytes per packet, as a number of `enum ibv_mtu`.
    pub(super) mtu: u8,
    /// READs and atomics that this end serves at the same time.
    pub(super) responder_resources: u8,
    /// READs and atomics that this end may have in flight.
    pub(super) initiator_depth: u8,
    pub(super) retries: u8,
    pub(super) rnr_retries: u8,
    pub(super) q_key: u32,
}

/// Default acknowledgement time-out of queue pairs: 268 ms. (Linux has 2.1 s, because packets are
/// rarely lost by chance on InfiniBand.)
pub(super) const ACK_TIMEOUT: u8 = 16;

/// Options set by `rdma_set_option`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) tos: u8,
    pub(super) reuse: bool,
    pub(super) family_only: Option<bool>,
    pub(super) ack_timeout: Option<u8>,
}

impl Options {
    /// Whether an id at an address is reached by addresses of the same family only. Without the
    /// option, that is so for IPv4 addresses (Linux, `rdma_bind_addr`).
    pub(super) fn is_family_only(&self, at: IpAddr) -> bool {
        self.family_only.unwrap_or(at.is_ipv4())
    }
}

impl Core {
    pub(super) fn new(queue: Queue, is_synchronous: bool, space: PortSpace) -> Result<Core> {
        let psn = super::clock::random()? as u32 & 0xff_ffff;
        Ok(Core {
            id: AtomicUsize::new(0),
            unacked: UnackedEvents::default(),
            inner: Mutex::new(Inner {
                queue,
                is_synchronous,
                space,
                local: None,
                remote: None,
                port: None,
                cm_device: None,
                connection: None,
                service: None,
                agreed: Agreed { psn, ..Agreed::default() },
                options: Options::default(),
                template: None,
                greeting: Vec::new(),
                is_over: false,
                is_unaccepted: false,
                own_queue_pair: None,
                leaves: false,
            }),
        })
    }

    pub(super) fn id(&self) -> *mut rdma_cm_id {
        self.id.load(Ordering::Acquire) as *mut rdma_cm_id
    }

    /// The CM device and the connection that the id uses.
    pub(super) fn connection(&self) -> Result<(Arc<CmDevice>, ConnectionId)> {
        let inner = lock(&self.inner);
        let cm_device = inner.cm_device.clone().ok_or(EINVAL)?;
        let connection = inner.connection.ok_or(EINVAL)?;
        inherited::check(cm_device.is_own())?;
        Ok((cm_device, connection))
    }
}

// SAFETY: `Id::give` makes every `rdma_cm_id`, as the first field of a boxed `Id`.
unsafe impl Handle for rdma_cm_id {
    type Object = Id;
}

impl Id {
    /// The id that a program passes. A null pointer is an error.
    pub(super) fn of(id: Option<Ptr<'_, rdma_cm_id>>) -> Result<&Id> {
        Ok(id.ok_or(EINVAL)?.object())
    }

    pub(super) fn new(
        core: Arc<Core>,
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        ps: c_int,
    ) -> Box<Id> {
        let base = rdma_cm_id {
            verbs: Field::null(),
            channel: Field::new(channel),
            context: Field::new(context),
            qp: Field::null(),
            route: zeroed(),
            ps,
            port_num: Field::new(0),
            event: Field::null(),
            send_cq_channel: Field::null(),
            send_cq: Field::null(),
            recv_cq_channel: Field::null(),
            recv_cq: Field::null(),
            srq: Field::null(),
            pd: Field::null(),
            qp_type: Field::new(if ps == RDMA_PS_TCP { IBV_QPT_RC } else { IBV_QPT_UD }),
        };
        Box::new(Id { base, core })
    }

    /// Passes an id to its program, which owns it from now on.
    pub(super) fn give(self: Box<Id>) -> *mut rdma_cm_id {
        let core = Arc::clone(&self.core);
        let id = rdma_cm_id::give(self);
        core.id.store(id as usize, Ordering::Release);
        id
    }

    /// Queue pair of the id, if it has one.
    pub(super) fn queue_pair(&self) -> Option<Ptr<'_, ibv_qp>> {
        // SAFETY: a program destroys the queue pair of an id (`rdma_destroy_qp`) while no other
        // call uses the id.
        unsafe { Ptr::found(self.base.qp.get()) }
    }

    /// Protection domain of the id's next queue pair, if it has one.
    pub(super) fn domain(&self) -> Option<Ptr<'_, ibv_pd>> {
        // SAFETY: it is that of the device, which is never freed, or one that the program has given
        // to this id and frees after the last use of it.
        unsafe { Ptr::found(self.base.pd.get()) }
    }

    /// Context of the id's device, if it has one.
    pub(super) fn context(&self) -> Option<Ptr<'_, ibv_context>> {
        // SAFETY: contexts that ids share are never closed.
        unsafe { Ptr::found(self.base.verbs.get()) }
    }

    /// Writes the path to the fields that the program reads.
    pub(super) fn show_path(&self) -> Result<()> {
        let path = path(&lock(&self.core.inner)).ok_or(EINVAL)?;
        self.set_path(Some(Box::new(path)));
        self.base.route.num_paths.set(1);
        Ok(())
    }

    /// Sets the path that the program sees, or none.
    pub(super) fn set_path(&self, path: Option<Box<ibv_sa_path_rec>>) {
        let before = self.base.route.path_rec.replace(path.map_or(null_mut(), Box::into_raw));
        if !before.is_null() {
            // SAFETY: this function put it there, and has just taken it away.
            drop(unsafe { Box::from_raw(before) });
        }
    }

    pub(super) fn is_datagram(&self) -> bool {
        self.base.qp_type.get() == IBV_QPT_UD
    }

    /// Writes the id's addresses, its device and the device's shared protection domain to the
    /// fields that the program reads.
    pub(super) fn show(&self) {
        let inner = lock(&self.core.inner);
        let address = self.base.route.addr.get();
        // SAFETY: only this function writes the addresses, and it holds the lock of the id; no call
        // of ours reads them. The program reads them after the call that finds them.
        unsafe {
            if let Some(local) = inner.local {
                (*address).src_storage = super::address::write(local);
            }
            if let Some(remote) = inner.remote {
                (*address).dst_storage = super::address::write(remote);
            }
            if inner.cm_device.is_some() {
                (*address).ibaddr = gids(inner.local, inner.remote);
            }
        }
        if let Some(cm_device) = &inner.cm_device {
            self.base.verbs.set(cm_device.context().raw());
            self.base.port_num.set(1);
            if self.base.pd.get().is_null() {
                // If there is no domain, the calls that need one fail.
                self.base.pd.set(cm_device.domain().unwrap_or(null_mut()));
            }
        }
    }
}

/// The only path, as a subnet administrator would describe it. `None` if the address is not
/// resolved.
fn path(inner: &Inner) -> Option<ibv_sa_path_rec> {
    const EXACTLY: u8 = 2;
    inner.cm_device.as_ref()?;
    let gid = |address: SocketAddr| ibv_gid::new(Gid::from(address.ip()).0);
    Some(ibv_sa_path_rec {
        dgid: gid(inner.remote?),
        sgid: gid(inner.local?),
        dlid: 0,
        slid: 0,
        raw_traffic: 0,
        flow_label: 0,
        hop_limit: 64,
        traffic_class: inner.options.tos,
        reversible: 1,
        numb_path: 1,
        pkey: P_KEY.to_be(),
        sl: 0,
        mtu_selector: EXACTLY,
        mtu: inner.agreed.mtu,
        rate_selector: EXACTLY,
        rate: 3,
        packet_life_time_selector: EXACTLY,
        packet_life_time: ACK_TIMEOUT - 1,
        preference: 0,
    })
}

/// The GIDs of an id's ends; zeros for an address that is not known.
fn gids(local: Option<SocketAddr>, remote: Option<SocketAddr>) -> rdma_ib_addr {
    let gid = |address: Option<SocketAddr>| {
        let known = address.filter(|address| !address.ip().is_unspecified());
        ibv_gid::new(known.map_or([0; 16], |address| Gid::from(address.ip()).0))
    };
    rdma_ib_addr { sgid: gid(local), dgid: gid(remote), pkey: P_KEY.to_be() }
}
