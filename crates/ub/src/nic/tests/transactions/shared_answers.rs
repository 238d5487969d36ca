//! Several transactions that one packet acknowledges.

use super::*;
use fairway_wire::{Data, Operation};

/// The numbers of transactions that each TAACK among these packets acknowledges.
fn acknowledged(packets: &[Transmit]) -> Vec<usize> {
    let count = |packet: &Transmit| match packet.packet {
        Packet::Data(Data { operation: Operation::Done { others, .. }, .. }) => {
            Some(1 + others.len())
        }
        _ => None,
    };
    packets.iter().filter_map(count).collect()
}

#[test]
fn operations_that_are_done_together_share_an_acknowledgement() {
    for (mode, loses) in
        [(ServiceMode::Rot, false), (ServiceMode::Roi, false), (ServiceMode::Rot, true)]
    {
        let mut pair = Pair::new(0, 1);
        let order = OrderRequest { mode, ..OrderRequest::default() };
        for id in 0..25 {
            pair.write_to(id, id * 10, 10, order);
        }
        for packet in &pair.outgoing() {
            pair.deliver(1, packet);
        }
        let now = pair.now;
        let answers: Vec<Transmit> =
            core::iter::from_fn(|| pair.nics[1].poll_transmit(now)).collect();
        assert_eq!(acknowledged(&answers), [11, 11, 3], "{mode:?}");
        assert_eq!(pair.nics[1].counters().transaction_acks_sent, 25);
        for answer in answers.iter().filter(|_| !loses) {
            pair.deliver(0, answer);
        }
        // Lost ones are sent again with the same content.
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.ids(0), (0..25).collect::<Vec<u64>>(), "{mode:?}");
        for nic in &pair.nics {
            assert_eq!(nic.usage().messages, 0);
        }
    }
}

/// A refusal is a packet of its own, and a peer that acknowledges what does not wait for an answer,
/// or twice, ends no operation.
#[test]
fn an_acknowledgement_names_only_what_waits_for_it() {
    let mut pair = Pair::new(0, 1);
    let order = OrderRequest { mode: ServiceMode::Rot, ..OrderRequest::default() };
    for id in 0..3 {
        pair.write_to(id, id * 10, 10, order);
    }
    let mut remote = pair.remote();
    remote.token_value += 1;
    pair.post_in_order(3, Work::Write { remote }, 10, order);
    pair.post(4, Work::Read { remote: pair.remote() }, 10);
    for packet in &pair.outgoing() {
        pair.deliver(1, packet);
    }
    let now = pair.now;
    let answers: Vec<Transmit> = core::iter::from_fn(|| pair.nics[1].poll_transmit(now)).collect();
    assert_eq!(acknowledged(&answers).first(), Some(&3));
    let names_three = |answer: &&Transmit| acknowledged(core::slice::from_ref(answer)) == [3];
    let mut forged = *answers.iter().find(names_three).expect("an acknowledgement of three");
    let Packet::Data(Data { operation: Operation::Done { others, .. }, .. }) = &mut forged.packet
    else {
        unreachable!("it was found by its operation");
    };
    // The slot of the READ, slots that nothing uses, and one named twice.
    for (slot, transaction) in [(0, 4), (1, 4), (4, 4), (200, 0), (1, 1)] {
        assert!(others.push(slot, transaction));
    }
    pair.deliver(0, &forged);
    assert_eq!(pair.ids(0), [0, 1, 2], "the READ waits for its bytes");
    for answer in answers.iter().filter(|answer| !names_three(answer)) {
        pair.deliver(0, answer);
    }
    pair.run_until_idle(|_, _| false);
    let mut done = pair.completions(0);
    done.sort_by_key(|completion| completion.id);
    let statuses: Vec<(u64, Status)> =
        done.iter().map(|completion| (completion.id, completion.status)).collect();
    assert_eq!(statuses, [(3, Status::RemoteAccess), (4, Status::Success)]);
}
