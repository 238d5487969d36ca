//! How many packets a requester may have on their way, if it learns that from losses.
//!
//! RNICs rely on a network that loses nothing. Where receive buffers overflow, going back N with
//! the whole window would fill them again at once, and no retry would ever succeed. So the window
//! is halved by every loss and grows again as TCP's does: by what was acknowledged up to half of
//! what was too much, then by a packet for every window acknowledged (RFC 5681, 3.1).

/// The least it comes to.
const LEAST: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    packets: u32,
    most: u32,
    /// Above this it grows slowly.
    threshold: u32,
    /// Packets acknowledged since it last grew slowly.
    acknowledged: u32,
}

impl Window {
    /// As large as it may be.
    pub(crate) const fn new(most: u32) -> Window {
        Window { packets: most, most, threshold: most, acknowledged: 0 }
    }

    /// As large as this one may be.
    pub(crate) const fn anew(&self) -> Window {
        Window::new(self.most)
    }

    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    /// Packets were lost; called once for all of a window.
    pub(crate) fn shrink(&mut self) {
        self.threshold = (self.packets / 2).max(LEAST.min(self.packets));
        self.packets = self.threshold;
        self.acknowledged = 0;
    }

    /// The same for one that is larger than what is on its way: that was too much.
    pub(crate) fn shrink_from(&mut self, on_the_way: u32) {
        self.packets = self.packets.min(on_the_way.max(LEAST));
        self.shrink();
    }

    /// So many packets were acknowledged.
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
    fn it_is_never_nothing() {
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
