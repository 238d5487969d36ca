//! The number of packets that a requester may have in flight, adapted to losses.
//!
//! RNICs rely on a lossless network. Where receive buffers overflow, going back N with the whole
//! window would fill them again at once, and no retry would ever succeed. Every loss therefore
//! halves the window, which then grows as TCP's does: by each packet acknowledged up to half of the
//! window that was too large, then by one packet for every window acknowledged (RFC 5681, 3.1).

/// The smallest window, in packets.
const LEAST: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    packets: u32,
    most: u32,
    /// Window above which it grows slowly.
    threshold: u32,
    /// Packets acknowledged since the last step of slow growth.
    acknowledged: u32,
}

impl Window {
    /// A window of its largest size.
    pub(crate) const fn new(most: u32) -> Window {
        Window { packets: most, most, threshold: most, acknowledged: 0 }
    }

    /// A new window with the same largest size.
    pub(crate) const fn anew(&self) -> Window {
        Window::new(self.most)
    }

    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    /// Halves the window after a loss; called once per window of lost packets.
    pub(crate) fn shrink(&mut self) {
        self.threshold = (self.packets / 2).max(LEAST.min(self.packets));
        self.packets = self.threshold;
        self.acknowledged = 0;
    }

    /// Shrinks a window that is larger than the packets in flight, whose number was too large.
    pub(crate) fn shrink_from(&mut self, on_the_way: u32) {
        self.packets = self.packets.min(on_the_way.max(LEAST));
        self.shrink();
    }

    /// Grows the window after `count` packets were acknowledged.
    pub(crate) fn grow(&mut self, count: u32) {
        let fast = count.min(self.threshold.saturating_sub(self.packets));
        self.packets += fast;
        self.acknowledged += count - fast;
        while self.packets < self.most && self.acknowledged >= self.packets {
            self.acknowledged -= self.packets;
            self.packets += 1;
        }
        if self.packets >= self.most {
            (self.packets, self.acknowledged) = (self.most, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_halve_it_and_acknowledgements_restore_it() {
        let mut window = Window::new(64);
        window.grow(1000);
        assert_eq!(window.packets(), 64);
        window.shrink();
        window.shrink();
        assert_eq!(window.packets(), 16);
        window.grow(16);
        assert_eq!(window.packets(), 17, "a packet for every window");
        window.grow(17 + 18);
        assert_eq!(window.packets(), 19);
        window.grow(u32::MAX / 2);
        assert_eq!(window.packets(), 64, "never more than it may be");
    }

    #[test]
    fn window_is_never_zero() {
        let mut window = Window::new(64);
        (0..10).for_each(|_| window.shrink());
        assert_eq!(window.packets(), LEAST);
        let mut wide = Window::new(1 << 23);
        wide.shrink_from(100);
        assert_eq!(wide.packets(), 50);
        let mut narrow = Window::new(2);
        (0..10).for_each(|_| narrow.shrink());
        assert_eq!(narrow.packets(), 2);
    }
}
