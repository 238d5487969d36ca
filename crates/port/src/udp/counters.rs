//! Counters of a port.

/// Events since the port was opened. Packets are those on the wire: the segments of a train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// System calls that sent something or tried to.
    pub send_calls: u64,
    /// Packets sent: passed to the kernel, or written to memory shared with the peer.
    pub packets_sent: u64,
    /// Bytes of those packets, without IP and UDP headers.
    pub bytes_sent: u64,
    /// System calls that received something or found nothing.
    pub receive_calls: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Bytes of those packets, without IP and UDP headers.
    pub bytes_received: u64,
    /// Packets among those sent that went through memory shared with a process of this host.
    pub packets_sent_in_memory: u64,
    /// Packets among those received that came through such memory.
    pub packets_received_in_memory: u64,
    /// Packets dropped because a process of this host did not read them for a while.
    pub packets_dropped_in_memory: u64,
    /// Packets among those sent that were frames past the kernel's network stack.
    pub packets_sent_as_frames: u64,
    /// Packets among those received that were such frames.
    pub packets_received_as_frames: u64,
    /// Packets among those sent that an RDMA NIC has taken.
    pub packets_sent_by_rnic: u64,
    /// Packets among those that have taken a connected queue pair (UC).
    pub packets_sent_connected: u64,
    /// Packets among those received that came from an RDMA NIC.
    pub packets_received_by_rnic: u64,
    /// Packets from an RDMA NIC that were dropped, because no peer has introduced their sender.
    pub rnic_packets_dropped: u64,
    /// Datagrams among those sent by the sockets that introduce queue pairs to a peer.
    pub introductions_sent: u64,
    /// Queue pairs of an RDMA NIC that have failed.
    pub queue_pairs_failed: u64,
    /// Packets among those received whose end a switch has cut off (trimmed).
    pub packets_received_cut: u64,
    /// Frames dropped because they were damaged, or for no socket.
    pub frames_dropped: u64,
    /// Attempts to send that found the kernel's buffers, or the shared memory, full.
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
        self.packets_sent_in_memory += other.packets_sent_in_memory;
        self.packets_received_in_memory += other.packets_received_in_memory;
        self.packets_dropped_in_memory += other.packets_dropped_in_memory;
        self.packets_sent_as_frames += other.packets_sent_as_frames;
        self.packets_received_as_frames += other.packets_received_as_frames;
        self.packets_sent_by_rnic += other.packets_sent_by_rnic;
        self.packets_sent_connected += other.packets_sent_connected;
        self.packets_received_by_rnic += other.packets_received_by_rnic;
        self.rnic_packets_dropped += other.rnic_packets_dropped;
        self.introductions_sent += other.introductions_sent;
        self.queue_pairs_failed += other.queue_pairs_failed;
        self.packets_received_cut += other.packets_received_cut;
        self.frames_dropped += other.frames_dropped;
        self.blocked += other.blocked;
        self.icmp_errors += other.icmp_errors;
        self.gso_fallbacks += other.gso_fallbacks;
    }
}
