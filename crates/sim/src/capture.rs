//! Captures of the packets that left by a port, in the format that Wireshark reads.

use super::packets::PacketHeaders;
use crate::endpoint::host_of;
use fairway_ub::wire::{Ecn, MAX_HEADER, encode, roce};

/// File header: nanosecond timestamps, little-endian, Ethernet, packets truncated to their headers.
const FILE_HEADER: [u32; 6] = [0xA1B2_3C4D, 4 << 16 | 2, 0, 0, 256, 1];
/// UDP port on which Fairway listens.
const PORT: u16 = 4800;
/// UDP port on which RoCEv2 listens.
const ROCE_PORT: u16 = 4791;
/// First UDP source port. The path's number is added to it, so that switches that hash ports see
/// the path.
const SOURCE_PORT: u16 = 49_152;
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;

/// A packet that left by the captured port.
#[derive(Clone, Copy, Debug)]
pub struct Captured {
    /// Time at which it left, in picoseconds.
    pub(crate) at: u64,
    /// Destination host, and the path on which it was sent.
    pub(crate) destination: u32,
    pub(crate) path: u8,
    pub(crate) headers: PacketHeaders,
}

/// Content of a packet behind its UDP header: Fairway's or RoCE's headers, and the bytes left out.
struct Datagram {
    source: u32,
    port: u16,
    ecn: Ecn,
    header: Vec<u8>,
    rest: usize,
}

impl Captured {
    fn datagram(&self) -> Datagram {
        let mut header = vec![0; MAX_HEADER];
        match &self.headers {
            PacketHeaders::Fairway(received) => {
                let payload = received.payload as usize;
                let length = encode(&received.route, &received.packet, payload, &mut header);
                header.truncate(length);
                let source = host_of(received.route.source);
                Datagram { source, port: PORT, ecn: received.ecn, header, rest: payload }
            }
            PacketHeaders::Roce(received) => {
                let payload = received.payload as usize;
                let length = roce::encode(&received.packet, payload, &mut header);
                header.truncate(length);
                let rest = roce::datagram_len(&received.packet, payload) - length;
                let source = received.source as u32;
                Datagram { source, port: ROCE_PORT, ecn: received.ecn, header, rest }
            }
        }
    }
}

/// Writes a capture file of packets, each with the time in picoseconds at which it left. A host's
/// address is 10.0.0.0 plus its number plus 1. Payload is left out because the simulator has none;
/// for RoCE, the ICRC is left out too.
pub fn pcap<'a>(packets: impl Iterator<Item = &'a Captured>) -> Vec<u8> {
    let mut out: Vec<u8> = FILE_HEADER.iter().flat_map(|word| word.to_le_bytes()).collect();
    for captured in packets {
        let datagram = captured.datagram();
        let frame = frame(captured, &datagram);
        let (seconds, rest) = (captured.at / 1_000_000_000_000, captured.at % 1_000_000_000_000);
        let lengths = [frame.len(), frame.len() + datagram.rest].map(|length| length as u32);
        let record = [seconds as u32, (rest / 1000) as u32, lengths[0], lengths[1]];
        out.extend(record.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(frame);
    }
    out
}

fn frame(captured: &Captured, datagram: &Datagram) -> Vec<u8> {
    let header = &datagram.header;
    let total = (IP + UDP + header.len() + datagram.rest) as u16;
    let mut frame = Vec::with_capacity(ETHERNET + IP + UDP + header.len());
    let [to, from] = [captured.destination, datagram.source].map(address);
    for host in [to, from] {
        frame.extend([2, 0]);
        frame.extend(host);
    }
    frame.extend(0x0800u16.to_be_bytes());
    let ecn = match datagram.ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 2,
        Ecn::Congested => 3,
    };
    let mut ip = [0u8; IP];
    (ip[0], ip[1], ip[6], ip[8], ip[9]) = (0x45, ecn, 0x40, 64, 17);
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[12..16].copy_from_slice(&from);
    ip[16..20].copy_from_slice(&to);
    let words = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame.extend(ip);
    let ports = [SOURCE_PORT + u16::from(captured.path), datagram.port, total - IP as u16, 0];
    frame.extend(ports.iter().flat_map(|word| word.to_be_bytes()));
    frame.extend(header);
    frame
}

fn address(host: u32) -> [u8; 4] {
    (10 << 24 | crate::endpoint::address(host).value()).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clos, Flow, Scenario, Simulation, Stack};
    use fairway_ub::wire::{Decoded, decode};

    /// Captures the wire of host 3, which sends to another host. Returns the number of packets and
    /// the file.
    fn captured(stack: Stack) -> (u64, Vec<u8>) {
        let network = Clos::three_tiers(16, 1).expect("a tree").build(400_000, 1_000_000);
        let wire = network.first_port[3];
        let mut scenario = Scenario::new(network, vec![Flow::new(3, 9, 100_001)]);
        (scenario.tap, scenario.stack) = (Some((wire, 1000)), stack);
        let mut simulation = Simulation::new(scenario, 1).expect("a run");
        let report = simulation.run(u32::MAX, |_| ());
        (report.ports[wire as usize].packets, pcap(simulation.captured()))
    }

    /// Decodes what was captured on a host's wire and finds all that the host has sent.
    #[test]
    fn a_capture_is_read_again() {
        for stack in [Stack::Fairway, Stack::Roce] {
            let (sent, file) = captured(stack);
            let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("a word"));
            let (mut at, mut packets, mut bytes) = (24, 0, 0);
            while at < file.len() {
                let (kept, whole) = (word(at + 8) as usize, word(at + 12) as usize);
                let frame = &file[at + 16..at + 16 + kept];
                let headers = ETHERNET + IP + UDP;
                let length = match stack {
                    Stack::Fairway => {
                        let decoded = decode(&frame[headers..], whole - headers);
                        match decoded.expect("a packet") {
                            Decoded::Packet { header_len, .. } => {
                                bytes += whole - kept;
                                header_len
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    _ => {
                        let decoded = roce::decode(&frame[headers..], whole - headers);
                        let decoded = decoded.expect("a packet");
                        bytes += decoded.payload_len;
                        decoded.header_len
                    }
                };
                assert_eq!(length, kept - headers, "{stack:?}");
                packets += 1;
                at += 16 + kept;
            }
            assert_eq!((packets, bytes), (sent, 100_001), "{stack:?}");
        }
    }
}
