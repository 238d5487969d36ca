//! Counters of a port.

/// Events since the port was opened. Packets are those on the wire: the segments of a train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// System calls that sent something or tried to.
    pub send_calls: u64,
    /// Packets passed to the kernel.
    pub packets_sent: u64,
    /// Bytes of those packets, without IP and UDP headers.
    pub bytes_sent: u64,
    /// System calls that received something or found nothing.
    pub receive_calls: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Bytes of those packets, without IP and UDP headers.
    pub bytes_received: u64,
    /// Send calls that found the kernel's buffers full.
    pub blocked: u64,
    /// Errors that the network reported (unreachable, refused), which a datagram transport
    /// survives.
    pub icmp_errors: u64,
    /// Trains that the kernel refused to segment, so that their packets were sent one by one.
    pub gso_fallbacks: u64,
}

impl std::ops::AddAssign for PortCounters {
    fn add_assign(&mut self, other: PortCounters) {
        self.send_calls += other.send_calls;
        self.packets_sent += other.packets_sent;
        self.bytes_sent += other.bytes_sent;
        self.receive_calls += other.receive_calls;
        self.packets_received += other.packets_received;
        self.bytes_received += other.bytes_received;
        self.blocked += other.blocked;
        self.icmp_errors += other.icmp_errors;
        self.gso_fallbacks += other.gso_fallbacks;
    }
}
