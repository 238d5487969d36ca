//! Runs the connection manager of a device: its datagrams, its timers, and the ids that receive its
//! events.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time;

use fairway::without_signals;
use fairway_rdma::{Gid, Management, Provider, Routed};
use fairway_roce::cm::{
    ConnectionId, Limits, ListenerId, Manager, Profile, Route, Sender, Transmit, destination,
    route, source,
};
use fairway_wire::Instant;

use super::address::{plain, scope};
use super::clock::{now, random};
use super::id::Core;
use super::{claims, deferred_disconnect, verbs};
use fairway_verbs::abi::{ibv_context, ibv_pd};
use fairway_verbs::manager::{self, DeviceHandle, DeviceState, ManagementListener, refuse_to};

use fairway_verbs::guard::{Errno, Result, lock};
use fairway_verbs::pointer::Ptr;

mod events;

#[cfg(test)]
pub(super) use events::awaited;
pub(super) use events::{address_of, mtu_code};

/// Largest number of unanswered requests if a program does not set it (Linux's default).
const BACKLOG: u32 = 1024;

/// Connection manager of one device, which lives until the process ends.
pub(super) struct CmDevice {
    me: Weak<CmDevice>,
    /// The process that has opened the device.
    process: u32,
    pub(super) device: &'static DeviceHandle,
    pub(super) provider: Arc<dyn Provider>,
    /// Address of the `ibv_context` that all ids of the device share.
    context: usize,
    /// Address of the ids' default `ibv_pd`; 0 before it is first needed.
    domain: Mutex<usize>,
    state: Mutex<State>,
    /// Notified when an earlier deadline has been set.
    wake: Condvar,
}

/// State behind the lock.
pub(super) struct State {
    pub(super) manager: Manager,
    pub(super) cores: HashMap<ConnectionId, Arc<Core>>,
    services: HashMap<u64, Listening>,
    /// The deadline until which the timer thread sleeps; `None` if it does not run.
    timer: Option<Instant>,
}

/// The ids that listen for a service.
struct Listening {
    listener: ListenerId,
    cores: Vec<Arc<Core>>,
}

static CM_DEVICES: Mutex<Vec<(u32, Arc<CmDevice>)>> = Mutex::new(Vec::new());

/// Time of the next timer event.
fn deadline(state: &mut State) -> Option<Instant> {
    state
        .manager
        .poll_timeout()
        .into_iter()
        .chain(deferred_disconnect::earliest())
        .reduce(Instant::min)
}

fn cm_devices() -> Vec<Arc<CmDevice>> {
    let process = std::process::id();
    let all = lock(&CM_DEVICES);
    all.iter()
        .filter(|(owner, _)| *owner == process)
        .map(|(_, cm_device)| Arc::clone(cm_device))
        .collect()
}

impl CmDevice {
    /// Returns the CM device of a device, and opens it on first use.
    pub(super) fn of(device: &'static DeviceHandle) -> Result<Arc<CmDevice>> {
        let process = std::process::id();
        let mut all = lock(&CM_DEVICES);
        let same = |(owner, cm_device): &&(u32, Arc<CmDevice>)| {
            *owner == process && std::ptr::eq(cm_device.device, device)
        };
        if let Some((_, cm_device)) = all.iter().find(same) {
            return Ok(Arc::clone(cm_device));
        }
        let device_state = DeviceState::of(&device.device);
        let provider = Arc::clone(device_state.provider()?);
        let context = verbs::ibv_open_device(device.as_ptr());
        if context.is_null() {
            return Err(Errno(libc::ENODEV));
        }
        let manager =
            Manager::new(&Limits::default(), &Profile::default(), provider.slot(), random()?);
        let state = State { manager, cores: HashMap::new(), services: HashMap::new(), timer: None };
        let cm_device = Arc::new_cyclic(|me| CmDevice {
            me: Weak::clone(me),
            process,
            device,
            provider,
            context: context as usize,
            domain: Mutex::new(0),
            state: Mutex::new(state),
            wake: Condvar::new(),
        });
        device_state.set_management(Some(Arc::clone(&cm_device) as Arc<dyn ManagementListener>));
        all.push((process, Arc::clone(&cm_device)));
        manager::at_exit(leave);
        Ok(cm_device)
    }

    /// Returns the CM device of the device that has this address, at the interface with the index
    /// `scope` unless that is 0. Several interfaces may have the same link-local address. Fails
    /// with `EADDRNOTAVAIL` if the host has no such address.
    pub(super) fn at(address: IpAddr, scope: u32) -> Result<Arc<CmDevice>> {
        let has = |device: &&'static DeviceHandle| {
            let device = &device.device;
            device.addresses.contains(&address) && (scope == 0 || scope == device.index)
        };
        let device = manager::devices_of_all_addresses()?.into_iter().find(has);
        match device {
            Some(device) => CmDevice::of(device),
            None if is_of_host(address) => Err(Errno(libc::ENODEV)),
            None => Err(Errno(libc::EADDRNOTAVAIL)),
        }
    }

    /// False in a child of the process that has opened the device.
    pub(super) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Index of the device's interface.
    pub(super) fn interface(&self) -> u32 {
        self.device.device.index
    }

    /// The protection domain of ids for which the program names none.
    pub(super) fn domain(&self) -> Result<*mut ibv_pd> {
        let mut domain = lock(&self.domain);
        if *domain == 0 {
            *domain = verbs::ibv_alloc_pd(self.context()) as usize;
        }
        match *domain {
            0 => Err(Errno(libc::ENOMEM)),
            domain => Ok(domain as *mut ibv_pd),
        }
    }

    /// The context that ids of this device share.
    pub(super) fn context(&self) -> Ptr<'_, ibv_context> {
        // SAFETY: `of` has opened it, and it is never closed.
        unsafe { Ptr::kept(self.context as *mut ibv_context) }
    }

    /// Index of an address in the device's GID table.
    pub(super) fn gid_index(&self, address: IpAddr) -> u8 {
        let gid = Gid::from(address);
        self.provider.gids().iter().position(|other| *other == gid).unwrap_or(0) as u8
    }

    /// Runs `body` on the state machine, then sends the datagrams and dispatches the events that
    /// result.
    pub(super) fn act<R>(&self, body: impl FnOnce(&mut State, Instant) -> R) -> R {
        let result = self.act_and_send(body);
        deferred_disconnect::release(now());
        result
    }

    /// Like [`act`](Self::act), but without delivering deferred events, which needs the provider's
    /// lock.
    fn act_and_send<R>(&self, body: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut to_send = Vec::new();
        let result = {
            let mut state = lock(&self.state);
            let result = body(&mut state, now());
            events::dispatch(self, &mut state);
            while let Some(transmit) = state.manager.poll_transmit() {
                to_send.push(transmit);
            }
            self.keep_time(&mut state);
            result
        };
        // The lock is not held here, because a peer in this process receives the datagram within
        // the call.
        for Transmit { to, bytes } in to_send {
            // A datagram that can't be sent is lost, and will be repeated.
            let _ = self.provider.send_management(to, &bytes);
        }
        result
    }

    /// Closes every connection, which notifies its peer that this process ends. Everything received
    /// so far is acknowledged first, so that it counts as a success at its sender.
    fn leave(&self) {
        self.provider.acknowledge();
        self.act_and_send(|state, now| {
            let open: Vec<ConnectionId> =
                state.cores.drain().map(|(connection, _)| connection).collect();
            for connection in open {
                // The connection may have ended already.
                let _ = state.manager.close(now, connection);
            }
        });
    }

    // ---- time ----

    /// Makes sure that a thread sleeps until the next deadline, if there is one.
    fn keep_time(&self, state: &mut State) {
        let Some(next) = deadline(state) else { return };
        match state.timer {
            Some(at) if next.is_before(at) => {
                state.timer = Some(next);
                self.wake.notify_one();
            }
            Some(_) => {}
            None => {
                let Some(cm_device) = self.me.upgrade() else { return };
                let thread = std::thread::Builder::new().name("fairway-cm".to_owned());
                // If the thread can't be started, the next datagram or call advances the time.
                if without_signals(|| thread.spawn(move || cm_device.sleep())).is_ok() {
                    state.timer = Some(next);
                }
            }
        }
    }

    /// Main function of the timer thread, which ends when no deadline is left.
    fn sleep(&self) {
        let mut state = lock(&self.state);
        while let Some(next) = deadline(&mut state) {
            let now = now();
            if now.is_at_or_after(next) {
                drop(state);
                self.act(|state, now| state.manager.handle_timeout(now));
                state = lock(&self.state);
                continue;
            }
            state.timer = Some(next);
            let span = time::Duration::from_nanos(next.since(now).as_ns() + 1);
            let waited = self.wake.wait_timeout(state, span);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.timer = None;
    }

    // ---- listening ----

    /// Delivers requests for a service to an id.
    pub(super) fn listen(&self, service: u64, backlog: i32, core: &Arc<Core>) -> Result<()> {
        let backlog = u32::try_from(backlog).ok().filter(|wanted| *wanted > 0);
        self.act(|state, now| {
            if let Some(listening) = state.services.get_mut(&service) {
                listening.cores.push(Arc::clone(core));
                return Ok(());
            }
            let listener = state
                .manager
                .listen(now, service, backlog.unwrap_or(BACKLOG))
                .map_err(|_| Errno(libc::ENOMEM))?;
            let cores = vec![Arc::clone(core)];
            state.services.insert(service, Listening { listener, cores });
            Ok(())
        })
    }

    fn unlisten(&self, service: u64, core: &Arc<Core>) {
        self.act(|state, now| {
            let Some(listening) = state.services.get_mut(&service) else { return };
            listening.cores.retain(|other| !Arc::ptr_eq(other, core));
            if listening.cores.is_empty() {
                let listener = listening.listener;
                state.services.remove(&service);
                // The listener exists, because it was created with the entry.
                let _ = state.manager.unlisten(now, listener);
            }
        });
    }

    fn listens(&self, service: u64) -> bool {
        lock(&self.state).services.contains_key(&service)
    }

    // ---- datagrams ----

    fn receive(&self, datagram: &Management<'_>) {
        let from = sender(datagram);
        self.act(|state, now| {
            state.manager.handle_datagram(now, &from, datagram.bytes);
        });
    }

    /// Handles a request for this process, which may have arrived at another of its devices.
    fn receive_request(&self, datagram: &Management<'_>) {
        let destination = destination(datagram.bytes);
        let other = destination.filter(|ip| !self.provider.gids().contains(&Gid::from(*ip)));
        let other = other.and_then(|ip| {
            cm_devices()
                .into_iter()
                .find(|cm_device| cm_device.provider.gids().contains(&Gid::from(ip)))
        });
        let Some(other) = other else { return self.receive(datagram) };
        if let Ok(source) = other.provider.resolve(Gid::from(datagram.from)) {
            other.receive(&Management { source, ..*datagram });
        }
    }
}

/// Whether an interface of the host has this address: a socket can be bound to it.
fn is_of_host(address: IpAddr) -> bool {
    let refused = UdpSocket::bind((address, 0)).err().map(|error| error.kind());
    refused != Some(ErrorKind::AddrNotAvailable)
}

/// Notifies the peers of all connections that this process ends, as a kernel would. Runs on the
/// farewell thread.
fn leave() {
    cm_devices().iter().for_each(|cm_device| cm_device.leave());
}

/// The sender of a datagram. Between addresses of this host, packets may be sent from another
/// address than the one that their sender is bound to.
fn sender(datagram: &Management<'_>) -> Sender {
    let cm_devices = cm_devices();
    let is_own = |ip: &IpAddr| {
        let has = |cm_device: &Arc<CmDevice>| cm_device.provider.gids().contains(&Gid::from(*ip));
        plain(*ip).is_loopback() || cm_devices.iter().any(has)
    };
    let from = plain(datagram.from);
    let claimed = source(datagram.bytes).filter(|claimed| is_own(&from) && is_own(claimed));
    // Linux drops packets that arrive from other hosts with one of this host's addresses as source,
    // if it is an IPv4 address or `::1`.
    let is_local = from.is_loopback() || from.is_ipv4() && is_own(&from);
    Sender { number: datagram.source, ip: claimed.unwrap_or(from), is_local }
}

impl ManagementListener for CmDevice {
    fn management(&self, datagram: &Management<'_>) -> Routed {
        match route(datagram.bytes) {
            Route::Slot(slot) if slot == self.provider.slot() => self.receive(datagram),
            Route::Service(service)
                if cm_devices().iter().any(|cm_device| cm_device.listens(service)) =>
            {
                self.receive_request(datagram);
            }
            Route::Slot(slot) if datagram.deliverable => return Routed::Slot(slot),
            Route::Service(service) if datagram.deliverable => return Routed::Service(service),
            Route::Slot(_) | Route::Service(_) => refuse_to(&*self.provider, datagram),
            Route::Anyone => self.receive(datagram),
        }
        Routed::Here
    }
}

/// Listens on every device that has the address, or on all of them for the wildcard address.
pub(super) fn listen(
    core: &Arc<Core>,
    address: SocketAddr,
    service: u64,
    backlog: i32,
) -> Result<()> {
    let at: Vec<Arc<CmDevice>> = match address.ip().is_unspecified() {
        false => vec![CmDevice::at(address.ip(), scope(&address))?],
        // A device that can't be opened is skipped, because no peer can reach it.
        true => {
            let all = manager::devices_of_all_addresses()?;
            all.into_iter().filter_map(|device| CmDevice::of(device).ok()).collect()
        }
    };
    let first = at.first().ok_or(Errno(libc::ENODEV))?;
    let claimed = claims::claim(&*first.provider, service)?;
    {
        let mut inner = lock(&core.inner);
        inner.service = Some(claimed);
        inner.queue.use_here();
    }
    at.iter().try_for_each(|cm_device| cm_device.listen(service, backlog, core))
}

/// Ends an id's connection or listening. The id receives no further events.
pub(super) fn forget(core: &Arc<Core>) {
    let (cm_device, connection, service) = {
        let mut inner = lock(&core.inner);
        (inner.cm_device.clone(), inner.connection.take(), inner.service.take())
    };
    if let Some(service) = service {
        let unlisten = |cm_device: &Arc<CmDevice>| cm_device.unlisten(service.service(), core);
        cm_devices().iter().for_each(unlisten);
    }
    // A connection of this process's parent stays.
    let cm_device = cm_device.filter(|cm_device| cm_device.is_own());
    if let (Some(cm_device), Some(connection)) = (cm_device, connection) {
        cm_device.act(|state, now| {
            state.cores.remove(&connection);
            // The state machine may have removed the connection already.
            let _ = state.manager.close(now, connection);
        });
    }
}
