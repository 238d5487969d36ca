//! Closes connections whose path no longer carries packets of the size that set-up proved.

use std::sync::Arc;

use fairway_ub::wire::Instant;

use crate::core::{Core, Notice};
use crate::peer_state::PeerState;
use crate::setup::shortened::CHECK_PERIOD;

impl Core {
    /// Starts to probe the peers of stalled channels with packets of full size.
    pub(crate) fn probe_stalled_channels(&mut self, now: Instant) {
        if now.is_before(self.connecting.stalls_at) {
            return;
        }
        self.connecting.stalls_at = now + CHECK_PERIOD;
        let mut stalled = Vec::new();
        for channel in self.channels.iter_mut() {
            let oldest = self.nic.oldest_unacknowledged(channel.id);
            let Some(watch) = &mut channel.watch else { continue };
            if watch.note_oldest(now, oldest) {
                stalled.push((channel.peer.clone(), *watch.agreed(), channel.id));
            }
        }
        for (peer, agreed, id) in stalled {
            let is_probed = self.connecting.sizes.iter().any(|probe| probe.is_of(&peer));
            let socket = self.channels.get(id).and_then(|channel| channel.path(0));
            if !is_probed
                && let Some(socket) = socket.map(|ends| ends.socket)
                && let Some(probe) = self.size_probe(now, &peer, socket, &agreed)
            {
                self.connecting.sizes.push(probe.beside_short_ones());
            }
        }
    }

    /// Advances all size probes, and closes the connections whose path proves too short.
    pub(super) fn advance_size_probes(&mut self, now: Instant) {
        let mut shortened = Vec::new();
        self.connecting.sizes.retain_mut(|probe| {
            let is_over = probe.advance(now);
            if is_over && probe.only_short_ones_arrive() {
                shortened.push(probe.peer().clone());
            }
            !is_over
        });
        for peer in shortened {
            self.close_shortened(now, &peer);
        }
    }

    /// Closes a connection that lets only short packets through, if a long one waits in it.
    fn close_shortened(&mut self, now: Instant, peer: &Arc<PeerState>) {
        let is_hopeless = self.channels.iter().any(|channel| {
            Arc::ptr_eq(&channel.peer, peer)
                && channel.watch.is_some_and(|watch| watch.is_hopeless(now))
        });
        if is_hopeless && self.close_channel(peer.channel).is_ok() {
            self.notice(Notice::PathShortened(peer.clone()));
        }
    }
}
