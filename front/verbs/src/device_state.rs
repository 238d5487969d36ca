//! State that all contexts of one device share: the provider, which is opened on first use, and the
//! objects that receive its events.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fairway::without_signals;
use fairway_device::{CompletionQueueId, SegmentId};
use fairway_rdma::devices::Device;
use fairway_rdma::{ForeignMemory, Listener, Management, Provider, Routed};
use fairway_roce::{Event, MemoryRequest, ReceiveQueueId};
use fairway_wire::Qpn;
use fairway_wire::roce::NakCode;

use crate::abi::{
    IBV_EVENT_COMM_EST, IBV_EVENT_CQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_LAST_WQE_REACHED,
    IBV_EVENT_QP_REQ_ERR, IBV_EVENT_SQ_DRAINED, IBV_EVENT_SRQ_LIMIT_REACHED,
};
use crate::events::{AsyncEvent, EventQueue};
use crate::guard::{Errno, Result, UnackedEvents, lock};
use crate::keys::Keys;
use crate::settings;
use crate::unattended::unattended;

/// State of one device within a process.
pub struct DeviceState {
    pub(crate) device: Device,
    provider: OnceLock<Arc<dyn Provider>>,
    opening: Mutex<()>,
    pub(crate) keys: Keys,
    nowhere: OnceLock<SegmentId>,
    queues: RwLock<HashMap<CompletionQueueId, Arc<QueueEvents>>>,
    pairs: RwLock<HashMap<u32, Arc<PairEvents>>>,
    shared: RwLock<HashMap<ReceiveQueueId, Arc<SharedEvents>>>,
    management: RwLock<Option<Arc<dyn ManagementListener>>>,
    numbers: AtomicU32,
}

/// Receiver of management datagrams, which the connection manager implements.
pub trait ManagementListener: Send + Sync {
    /// Handles a received datagram.
    fn management(&self, datagram: &Management<'_>) -> Routed;
}

/// Subject of asynchronous events: an object that a program holds.
pub(crate) struct Subject {
    /// Address of the object's C struct.
    pub(crate) object: usize,
    /// Queue into which the events go.
    pub(crate) events: Arc<EventQueue<AsyncEvent>>,
    /// Events that were delivered to the program and not acknowledged.
    pub(crate) unacked: Arc<UnackedEvents>,
}

impl Subject {
    pub(crate) fn raise(&self, kind: i32) {
        let unacked = Arc::clone(&self.unacked);
        self.events.push(AsyncEvent { object: self.object, kind, unacked });
    }

    /// Called when the object is destroyed. Drops its undelivered events, and waits until the
    /// delivered ones are acknowledged. No further events are raised, because the object has
    /// already been removed from the device state.
    pub(crate) fn drain(&self) {
        self.events.forget(|event| event.object == self.object);
        self.unacked.wait();
    }
}

/// Receivers of the events of a completion queue.
pub(crate) struct QueueEvents {
    pub(crate) subject: Subject,
    /// Completion channel of the queue, if it has one.
    pub(crate) channel: Option<Arc<EventQueue<Arc<QueueEvents>>>>,
    /// Completion events that were delivered to the program and not acknowledged.
    pub(crate) unacked: UnackedEvents,
}

/// Receivers of the events of a shared receive queue.
pub(crate) struct SharedEvents {
    pub(crate) subject: Subject,
    /// The armed limit; 0 if none is armed.
    pub(crate) limit: AtomicU32,
}

/// Receivers of the asynchronous events of a queue pair.
pub(crate) struct PairEvents {
    pub(crate) subject: Subject,
    /// `en_sqd_async_notify` of the last request to drain the send queue.
    pub(crate) notify_drained: AtomicBool,
}

/// The states of devices, with the processes that have them.
static STATES: Mutex<Vec<(u32, Arc<DeviceState>)>> = Mutex::new(Vec::new());

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the entry under a number that the provider has already freed, unless another thread has
/// reused the number for a new object.
fn remove_own<K: Eq + Hash, V>(all: &mut HashMap<K, Arc<V>>, number: &K, own: &Arc<V>) {
    if all.get(number).is_some_and(|known| Arc::ptr_eq(known, own)) {
        all.remove(number);
    }
}

impl DeviceState {
    fn new(device: Device) -> DeviceState {
        DeviceState {
            device,
            provider: OnceLock::new(),
            opening: Mutex::new(()),
            keys: Keys::default(),
            nowhere: OnceLock::new(),
            queues: RwLock::default(),
            pairs: RwLock::default(),
            shared: RwLock::default(),
            management: RwLock::default(),
            numbers: AtomicU32::new(1),
        }
    }

    /// Returns the device state of a device in this process. A child of `fork` gets a new one.
    pub fn of(device: &Device) -> Arc<DeviceState> {
        let process = std::process::id();
        let mut states = lock(&STATES);
        let same = |(owner, device_state): &&(u32, Arc<DeviceState>)| {
            *owner == process && device_state.device == *device
        };
        if let Some((_, device_state)) = states.iter().find(same) {
            return Arc::clone(device_state);
        }
        let device_state = Arc::new(DeviceState::new(device.clone()));
        states.push((process, Arc::clone(&device_state)));
        device_state
    }

    /// True if this process has opened the provider of a device.
    pub(crate) fn is_open(device: &Device) -> bool {
        let process = std::process::id();
        let is_it = |(owner, state): &(u32, Arc<DeviceState>)| {
            *owner == process && state.device == *device && state.provider.get().is_some()
        };
        lock(&STATES).iter().any(is_it)
    }

    /// Returns a number that no other protection domain, completion queue or similar object of this
    /// device has.
    pub(crate) fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the provider, and opens it on first use.
    pub fn provider(self: &Arc<Self>) -> Result<&Arc<dyn Provider>> {
        if let Some(provider) = self.provider.get() {
            return Ok(provider);
        }
        let _opening = lock(&self.opening);
        if let Some(provider) = self.provider.get() {
            return Ok(provider);
        }
        let opened = settings::provider(&settings::environment, &self.device)
            .map_err(|settings::SettingError(text)| (text, Errno(libc::EINVAL)))
            .and_then(|(kind, options)| {
                let listener: Arc<dyn Listener> = Arc::clone(self) as _;
                without_signals(|| fairway_rdma::open(kind, &options, listener))
                    .map_err(|error| (error.to_string(), Errno::from(error)))
            });
        match opened {
            Ok(provider) => {
                if let Some(shortage) = provider.socket_shortage() {
                    eprintln!("fairway: device {}: {shortage}", self.device.name);
                }
                Ok(self.provider.get_or_init(|| provider))
            }
            Err((text, error)) => {
                let Device { name, interface, .. } = &self.device;
                eprintln!("fairway: can't use device {name} (interface {interface}): {text}");
                Err(error)
            }
        }
    }

    /// Returns the provider, if it is open.
    pub(crate) fn open_provider(&self) -> Option<&Arc<dyn Provider>> {
        self.provider.get()
    }

    /// Memory that no queue pair may use. A work request that names unregistered memory uses this
    /// segment instead, and so completes with a protection error.
    pub(crate) fn nowhere(&self, provider: &dyn Provider) -> Result<SegmentId> {
        static BYTE: [u8; 8] = [0; 8];
        if let Some(segment) = self.nowhere.get() {
            return Ok(*segment);
        }
        // SAFETY: never written, as no right is granted, and it lives as long as the process.
        let memory = unsafe { ForeignMemory::new(BYTE.as_ptr().cast_mut(), BYTE.len()) };
        let rights = fairway::Rights::NONE;
        let request = MemoryRequest { domain: u32::MAX, address: 0, length: 8, rights };
        let region = provider.register(memory, &request)?;
        Ok(*self.nowhere.get_or_init(|| region.segment))
    }

    pub(crate) fn add_queue(&self, id: CompletionQueueId, events: Arc<QueueEvents>) {
        write(&self.queues).insert(id, events);
    }

    pub(crate) fn remove_queue(&self, id: CompletionQueueId, events: &Arc<QueueEvents>) {
        remove_own(&mut write(&self.queues), &id, events);
    }

    pub(crate) fn add_pair(&self, number: u32, events: Arc<PairEvents>) {
        write(&self.pairs).insert(number, events);
    }

    pub(crate) fn remove_pair(&self, number: u32) {
        write(&self.pairs).remove(&number);
    }

    pub(crate) fn add_shared(&self, id: ReceiveQueueId, events: Arc<SharedEvents>) {
        write(&self.shared).insert(id, events);
    }

    pub(crate) fn remove_shared(&self, id: ReceiveQueueId, events: &Arc<SharedEvents>) {
        remove_own(&mut write(&self.shared), &id, events);
    }

    fn pair_event(&self, number: Qpn, raise: impl FnOnce(&PairEvents)) {
        if let Some(pair) = read(&self.pairs).get(&number.value()) {
            raise(pair);
        }
    }

    /// Sets the receiver of management datagrams.
    pub fn set_management(&self, listener: Option<Arc<dyn ManagementListener>>) {
        *write(&self.management) = listener;
    }
}

impl Listener for DeviceState {
    fn completion(&self, queue: CompletionQueueId) {
        // The lock is held because no event may be raised after the queue has been removed.
        let queues = read(&self.queues);
        let events = queues.get(&queue);
        if let Some((events, channel)) = events.and_then(|at| Some((at, at.channel.as_ref()?))) {
            channel.push(Arc::clone(events));
        }
    }

    fn event(&self, event: Event) {
        let raise = |kind| move |pair: &PairEvents| pair.subject.raise(kind);
        match event {
            Event::Established { queue_pair } => {
                self.pair_event(queue_pair, raise(IBV_EVENT_COMM_EST));
            }
            Event::Drained { queue_pair } => self.pair_event(queue_pair, |pair| {
                if pair.notify_drained.load(Ordering::Acquire) {
                    pair.subject.raise(IBV_EVENT_SQ_DRAINED);
                }
            }),
            Event::LastReceive { queue_pair } => {
                self.pair_event(queue_pair, raise(IBV_EVENT_QP_LAST_WQE_REACHED));
            }
            // These events are for the end that has refused a request (10.10.2.3): the other end
            // gets a completion.
            Event::Refused { queue_pair, code: NakCode::RemoteAccess } => {
                self.pair_event(queue_pair, raise(IBV_EVENT_QP_ACCESS_ERR));
            }
            Event::Refused { queue_pair, code: NakCode::InvalidRequest } => {
                self.pair_event(queue_pair, raise(IBV_EVENT_QP_REQ_ERR));
            }
            // Every other failure is reported by a completion.
            Event::Fault { .. } | Event::Refused { .. } | Event::SegmentReleased { .. } => {}
            Event::Overrun { queue } => {
                if let Some(events) = read(&self.queues).get(&queue) {
                    events.subject.raise(IBV_EVENT_CQ_ERR);
                }
            }
            Event::ReceiveLimit { queue } => {
                if let Some(events) = read(&self.shared).get(&queue) {
                    events.limit.store(0, Ordering::Release);
                    events.subject.raise(IBV_EVENT_SRQ_LIMIT_REACHED);
                }
            }
        }
    }

    fn management(&self, datagram: &Management<'_>) -> Routed {
        let listener = read(&self.management).clone();
        match listener {
            Some(listener) => listener.management(datagram),
            None => unattended(self.provider.get().map(|provider| &**provider), datagram),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_number_survives_removal_of_its_former_object() {
        let mut all = HashMap::new();
        let (old, new) = (Arc::new('a'), Arc::new('b'));
        all.insert(5, Arc::clone(&old));
        // The provider's object is destroyed, and another thread creates one before the first
        // thread continues.
        all.insert(5, Arc::clone(&new));
        remove_own(&mut all, &5, &old);
        assert_eq!(all.get(&5), Some(&new));
        remove_own(&mut all, &5, &new);
        assert!(all.is_empty());
    }
}
