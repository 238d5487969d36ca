//! Users of a core beside the public API, such as queue pairs.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway_runtime::{Burst, SMALL, SmallPosts};
use fairway_ub::wire::{Cna, Instant, ServiceMode};
use fairway_ub::{ChannelId, Work, WorkRequest};

use super::{Core, Notice};
use crate::peer_state::PeerState;

/// Owner of Jetties and channels on a core beside those of the public API, such as queue pairs. All
/// methods are called with the core locked.
pub trait Tenant: Any + Send {
    /// Takes the protocol's completions and advances the operations that waited for them. Called
    /// before each release of the lock.
    fn process_completions(&mut self, core: &mut Core);

    /// Begins the operations that wait for others ([`Core::posts_wait`]).
    fn begin_waiting(&mut self, core: &mut Core);

    /// Time at which [`Tenant::process_completions`] must be called even without another event.
    fn deadline(&self) -> Option<Instant>;

    /// True if a HELLO or CONFIRM from a peer is to stay unanswered, because an attempt from this
    /// side to connect to that peer makes the channel for both. The attempt is under way, or was
    /// until a moment ago. `local` is the address that the peer contacted, and `incarnation` is the
    /// sender's.
    fn prevails(&self, local: IpAddr, from: SocketAddr, incarnation: Cna) -> bool;

    /// Takes the program's callbacks that are due, to be run once the lock has been released.
    fn take_calls(&mut self) -> Option<Box<dyn FnOnce()>>;
}

impl Core {
    /// Sets the tenant. A core has at most one.
    pub fn set_tenant(&mut self, tenant: Box<dyn Tenant>) {
        self.tenant = Some(tenant);
    }

    /// Calls a function with the tenant. Returns `None` if there is none of this type.
    pub fn with_tenant<T: Tenant, R>(
        &mut self,
        work: impl FnOnce(&mut T, &mut Core) -> R,
    ) -> Option<R> {
        let mut tenant = self.tenant.take()?;
        let any: &mut dyn Any = &mut *tenant;
        let result = any.downcast_mut().map(|tenant| work(tenant, self));
        self.tenant = Some(tenant);
        result
    }

    /// Records that an operation has been posted by a call that began at `began`, so there may be
    /// packets to send.
    pub fn note_post(&mut self, began: Instant, request: &WorkRequest) {
        match is_small(request) {
            true => {
                let none = SmallPosts { began, count: 0, under_way: 0 };
                self.small_posts.get_or_insert(none).count += 1;
            }
            false => self.wants_send = true,
        }
    }

    /// True if small operations, which are all that the program has posted since the lock was
    /// taken, may wait for others ([`Burst`]), and nothing else is to be done before the lock is
    /// released. The tenant then begins them when it is next called.
    pub fn posts_wait(&mut self, burst: &mut Burst, posts: SmallPosts) -> bool {
        let is_all = !self.wants_send && self.small_posts.is_none() && self.interests.is_empty();
        let waits = is_all && burst.may_wait(posts);
        self.has_waiting_posts |= waits;
        waits
    }

    /// Begins operations that wait for others. The poll that calls this sends them.
    #[inline]
    pub(crate) fn begin_waiting(&mut self) {
        if std::mem::take(&mut self.has_waiting_posts)
            && let Some(mut tenant) = self.tenant.take()
        {
            tenant.begin_waiting(self);
            self.tenant = Some(tenant);
        }
    }

    /// Records that packets which were posted are not to be sent.
    pub fn note_abort(&mut self) {
        self.wants_send = true;
    }

    /// Records that the tenant has returned memory to which unsent packets may refer.
    pub fn note_end(&mut self) {
        self.teardown_epoch = self.teardown_epoch.wrapping_add(1);
    }

    /// True if there are events of the context that [`Core::poll_connected`] has not taken.
    pub fn has_events(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Returns the next peer that has connected to this context. Other events are dropped.
    pub fn poll_connected(&mut self) -> Option<Arc<PeerState>> {
        while let Some(notice) = self.notices.pop_front() {
            if let Notice::Connected(peer) = notice {
                return Some(peer);
            }
        }
        None
    }

    /// Returns the peer at the other end of a channel.
    pub fn peer_of(&self, channel: ChannelId) -> Option<&Arc<PeerState>> {
        self.channels.get(channel).map(|channel| &channel.peer)
    }

    /// Number of connections that are alive.
    pub fn connections(&self) -> usize {
        self.peer_states().len()
    }
}

/// True for a small operation that the peer acknowledges by the transport.
#[inline]
fn is_small(request: &WorkRequest) -> bool {
    let bypasses = matches!(request.work, Work::Load { .. } | Work::Store { .. });
    let is_reliable = request.order.mode != ServiceMode::Uno && !bypasses;
    is_reliable && request.local.length <= SMALL
}
