//! Captures: what left by a port, in the format that Wireshark reads.

use fairway_engine::Received;
use fairway_engine::wire::{Cna, Ecn, MAX_HEADER, encode};

/// Nanoseconds, little-endian, Ethernet, headers only.
const FILE_HEADER: [u32; 6] = [0xA1B2_3C4D, 4 << 16 | 2, 0, 0, 256, 1];
/// Where Fairway listens.
const PORT: u16 = 4800;
/// The first source port; the path is added, as switches that hash ports see it.
const SOURCE_PORT: u16 = 49_152;
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;

/// A capture file of packets, each with the time in picoseconds at which it left. Hosts have the
/// addresses 10.0.0.0 plus their number and 1. Payload is left out: nobody has it.
pub fn pcap<'a>(packets: impl Iterator<Item = &'a (u64, Received)>) -> Vec<u8> {
    let mut out: Vec<u8> = FILE_HEADER.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (at, received) in packets {
        let mut header = [0; MAX_HEADER];
        let payload = received.payload as usize;
        let length = encode(&received.route, &received.packet, payload, &mut header);
        let frame = frame(received, &header[..length]);
        let (seconds, nanoseconds) = (at / 1_000_000_000_000, at / 1000 % 1_000_000_000);
        let lengths = [frame.len(), frame.len() + payload].map(|length| length as u32);
        let record = [seconds as u32, nanoseconds as u32, lengths[0], lengths[1]];
        out.extend(record.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(frame);
    }
    out
}

fn frame(received: &Received, header: &[u8]) -> Vec<u8> {
    let route = &received.route;
    let total = (IP + UDP + header.len() + received.payload as usize) as u16;
    let mut frame = Vec::with_capacity(ETHERNET + IP + UDP + header.len());
    for host in [route.destination, route.source] {
        frame.extend([2, 0]);
        frame.extend(address(host));
    }
    frame.extend(0x0800u16.to_be_bytes());
    let ecn = match received.ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 2,
        Ecn::Congested => 3,
    };
    let mut ip = [0u8; IP];
    (ip[0], ip[1], ip[6], ip[8], ip[9]) = (0x45, ecn, 0x40, 64, 17);
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[12..16].copy_from_slice(&address(route.source));
    ip[16..20].copy_from_slice(&address(route.destination));
    let words = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame.extend(ip);
    let ports = [SOURCE_PORT + u16::from(route.path), PORT, total - IP as u16, 0];
    frame.extend(ports.iter().flat_map(|word| word.to_be_bytes()));
    frame.extend(header);
    frame
}

fn address(host: Cna) -> [u8; 4] {
    (10 << 24 | host.value()).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::{Clos, Flow, Scenario, Simulation};
    use fairway_engine::wire::{Decoded, decode};

    /// What is captured on a host's wire is decoded again, and is all that the host has sent.
    #[test]
    fn a_capture_is_read_again() {
        let network = Clos::three_tiers(16, 1).expect("a tree").build(400_000, 1_000_000);
        let wire = network.first_port[3];
        let mut scenario = Scenario::new(network, vec![Flow::new(3, 9, 100_000)]);
        scenario.tap = Some((wire, 1000));
        let mut simulation = Simulation::new(scenario, 1).expect("a run");
        let report = simulation.run(u32::MAX, |_| ());
        let file = pcap(simulation.captured());
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("a word"));
        let (mut at, mut packets, mut bytes) = (24, 0, 0);
        while at < file.len() {
            let (kept, whole) = (word(at + 8) as usize, word(at + 12) as usize);
            let frame = &file[at + 16..at + 16 + kept];
            let headers = ETHERNET + IP + UDP;
            let decoded = decode(&frame[headers..], whole - headers).expect("a packet");
            let Decoded::Packet { header_len, .. } = decoded else { panic!("{decoded:?}") };
            assert_eq!(header_len, kept - headers);
            bytes += whole - kept;
            packets += 1;
            at += 16 + kept;
        }
        assert_eq!((packets, bytes), (report.ports[wire as usize].packets, 100_000));
    }
}
