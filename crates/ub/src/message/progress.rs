//! Progress of the transmission of a message: packets sent, acknowledged and still to be sent.

use fairway_wire::Msn;

/// The transmission of one message, packet by packet. The content of the packets belongs to
/// [`super::Body`], and the paths where they are in flight to the send window of the channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    number: Msn,
    /// Payload bytes of all packets together.
    carried: u32,
    /// Packets of the message; at least one.
    packets: u32,
    /// The next packet to be sent for the first time.
    next: u32,
    /// Packets sent and not acknowledged.
    outstanding: u32,
    /// Set if the receiver has acknowledged that it recorded where the message starts.
    is_start_known: bool,
    /// Set if the next transmission has the number of the previous one.
    keeps_number: bool,
    /// Set if an earlier transmission, on another channel, was not completed.
    is_repeated: bool,
}

impl Progress {
    /// The transmission of a message without payload, of which nothing has been sent.
    pub(super) const NEW: Progress = Progress {
        number: Msn::new(0),
        carried: 0,
        packets: 1,
        next: 0,
        outstanding: 0,
        is_start_known: false,
        keeps_number: false,
        is_repeated: false,
    };

    /// The transmission of a message with `bytes` bytes of payload, of which nothing has been sent.
    pub(super) fn of_payload(bytes: u32, mtu: u32) -> Progress {
        Progress { carried: bytes, packets: packets_of(bytes, mtu), ..Progress::NEW }
    }

    /// Adds `bytes` bytes of payload to a message without any. Nothing of it has been sent.
    pub(super) fn set_payload(&mut self, bytes: u32, mtu: u32) {
        (self.carried, self.packets) = (bytes, packets_of(bytes, mtu));
    }

    // ---- its size ----

    /// Payload bytes of the whole message.
    #[inline]
    pub(crate) fn carried(&self) -> u32 {
        self.carried
    }

    /// True if the message takes several packets.
    #[inline]
    pub(crate) fn is_multi(&self) -> bool {
        self.packets > 1
    }

    /// True if packet `index` is the last one of the message.
    #[inline]
    pub(crate) fn is_last(&self, index: u32) -> bool {
        index + 1 == self.packets
    }

    /// Payload bytes of packet `index`.
    #[inline]
    pub(crate) fn payload(&self, index: u32, mtu: u32) -> u32 {
        let before = u64::from(index) * u64::from(mtu);
        u64::from(self.carried).saturating_sub(before).min(u64::from(mtu)) as u32
    }

    // ---- what has been sent ----

    /// The number of the message on its channel. Meaningless until its first packet is sent.
    #[inline]
    pub(crate) fn number(&self) -> Msn {
        self.number
    }

    /// The index of the next packet to be sent for the first time.
    #[inline]
    pub(crate) fn next_packet(&self) -> u32 {
        self.next
    }

    /// True if any packet has been sent.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.next > 0
    }

    /// True if any packet has been sent, here or on another channel.
    pub(crate) fn may_have_arrived(&self) -> bool {
        self.has_begun() || self.is_repeated
    }

    /// True if every packet has been sent at least once.
    #[inline]
    pub(crate) fn is_all_sent(&self) -> bool {
        self.next == self.packets
    }

    /// Packets still to be sent for the first time.
    #[inline]
    pub(crate) fn packets_unsent(&self) -> u32 {
        self.packets.saturating_sub(self.next)
    }

    /// Payload bytes still to be sent for the first time.
    #[inline]
    pub(crate) fn bytes_unsent(&self, mtu: u32) -> u64 {
        u64::from(self.carried).saturating_sub(u64::from(self.next) * u64::from(mtu))
    }

    /// True if any packet is sent and not acknowledged.
    #[inline]
    pub(crate) fn has_outstanding(&self) -> bool {
        self.outstanding > 0
    }

    /// True if the receiver has recorded where the message starts: its packets need not repeat it.
    #[inline]
    pub(crate) fn is_start_known(&self) -> bool {
        self.is_start_known
    }

    /// True if the first packet needs a new message number.
    #[inline]
    pub(crate) fn needs_number(&self) -> bool {
        !self.keeps_number
    }

    // ---- events ----

    /// Sets the message number, before the first packet is sent.
    #[inline]
    pub(crate) fn set_number(&mut self, number: Msn) {
        self.number = number;
    }

    /// Counts the next packet as sent. True if it is the last one.
    #[inline]
    pub(crate) fn note_sent(&mut self) -> bool {
        self.next += 1;
        self.outstanding += 1;
        self.is_all_sent()
    }

    /// Counts the packet of a load or store as sent. Such packets are not acknowledged.
    pub(crate) fn note_sent_unsequenced(&mut self) {
        self.next = 1;
    }

    /// Counts a packet as acknowledged. True if none is outstanding any more.
    #[inline]
    pub(crate) fn note_acknowledged(&mut self) -> bool {
        self.outstanding -= 1;
        self.outstanding == 0
    }

    /// Notes that the receiver has acknowledged that it recorded where the message starts.
    pub(crate) fn note_start_known(&mut self) {
        self.is_start_known = self.has_begun();
    }

    /// Prepares the message to be sent again from its first packet. None is outstanding.
    pub(crate) fn restart(&mut self) {
        self.next = 0;
        self.is_start_known = false;
    }

    /// Prepares the message to be sent from its first packet on another channel.
    pub(super) fn repeat_elsewhere(&mut self) {
        self.is_repeated |= self.has_begun();
        self.restart();
    }

    /// Prepares one packet without payload to be sent in place of the message.
    pub(super) fn restart_as_notice(&mut self) {
        (self.carried, self.packets) = (0, 1);
        self.restart();
    }

    /// Sets whether the notice that follows the message has to have its number.
    pub(crate) fn set_keeps_number(&mut self, keeps_number: bool) {
        self.keeps_number = keeps_number;
    }

    /// Clears the outstanding packets when the channel has ended: none is acknowledged any more.
    pub(crate) fn forget_outstanding(&mut self) {
        self.outstanding = 0;
    }
}

/// Packets that a message of `bytes` bytes takes.
fn packets_of(bytes: u32, mtu: u32) -> u32 {
    bytes.div_ceil(mtu).max(1)
}
