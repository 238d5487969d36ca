use super::*;

#[test]
fn a_permutation_has_one_flow_in_and_out_of_every_host() {
    let flows = permutation(100, 5, 3);
    let (mut from, mut to) = (vec![0; 100], vec![0; 100]);
    for flow in &flows {
        assert_ne!(flow.source, flow.destination);
        from[flow.source as usize] += 1;
        to[flow.destination as usize] += 1;
    }
    assert!(from.iter().chain(&to).all(|count| *count == 1));
    assert_ne!(flows, permutation(100, 5, 4));
}

#[test]
fn a_matrix_is_read() {
    let text = "Nodes 4\nConnections 3\nTriggers 1\n0->1 id 1 start 500 size 10 \
                recv_done_trigger 7\n2->3 id 2 start 0 size 20 send_done_trigger 7\n\
                1->0 id 3 trigger 7 size 30 # last\ntrigger id 7 barrier count 2\n";
    let (nodes, flows) = parse_matrix(text).expect("a good file");
    assert_eq!((nodes, flows.len()), (4, 3));
    assert_eq!(flows[0], Flow { start_ps: 500, ..Flow::new(0, 1, 10) });
    let after = vec![After { flow: 0, delivered: true }, After { flow: 1, delivered: false }];
    assert_eq!(flows[2], Flow { after, ..Flow::new(1, 0, 30) });
}

#[test]
fn a_wrong_matrix_is_refused_with_its_line() {
    for (text, word) in [
        ("Nodes 2\n0->1 start 0 size x", "line 2"),
        ("Nodes 2\n0->2 start 0 size 5", "0->2"),
        ("Nodes 2\n0->1 start 0", "without a size"),
        ("Nodes 2\n0->1 trigger 4 size 5", "trigger 4"),
        ("Nodes 2\nbanana", "banana"),
        ("Nodes 2\nConnections 5\n0->1 start 0 size 5", "Connections 5, but there are 1"),
        ("Nodes 2\n0->1 size", "no value"),
        ("0->1 size 5", "add a line as Nodes 16"),
        ("Nodes 2\n0->1 start 1000000000000001 size 5", "1000 s"),
    ] {
        let error = parse_matrix(text).expect_err(text).to_string();
        assert!(error.contains(word), "{error}");
    }
}

/// Traces a collective flow by flow and tracks which data each rank holds.
#[test]
fn collectives_bring_all_data_to_every_rank() {
    for hosts in [2u32, 3, 7, 16] {
        for kind in [Collective::RingAllReduce, Collective::AllGather, Collective::TreeAllReduce] {
            let flows = collective(kind, hosts, 1 << 20, None);
            let mut data: Vec<Vec<bool>> =
                (0..hosts).map(|host| (0..hosts).map(|other| other == host).collect()).collect();
            for (index, flow) in flows.iter().enumerate() {
                // A flow waits only for flows that precede it and that end at its source.
                for after in &flow.after {
                    assert!((after.flow as usize) < index && after.delivered);
                    assert_eq!(flows[after.flow as usize].destination, flow.source);
                }
                let sent = data[flow.source as usize].clone();
                let received = &mut data[flow.destination as usize];
                received.iter_mut().zip(sent).for_each(|(known, sent)| *known |= sent);
            }
            assert!(data.iter().flatten().all(|known| *known), "{kind:?} of {hosts}");
        }
        let ring = collective(Collective::ReduceScatter, hosts, 1 << 20, None);
        assert_eq!(ring.len() as u32, hosts * (hosts - 1));
    }
}

#[test]
fn pieces_longer_than_a_slot_are_cut_and_travel_on_span_by_span() {
    let (hosts, slot) = (4, 64 << 10);
    for kind in [
        Collective::RingAllReduce,
        Collective::TreeAllReduce,
        Collective::HalvingAllReduce,
        Collective::DoublingAllReduce,
        Collective::AllGather,
        Collective::PairwiseAllToAll,
    ] {
        let whole = collective(kind, hosts, 1 << 20, None);
        let cut = collective(kind, hosts, 1 << 20, Some(slot));
        let bytes = |flows: &[Flow]| flows.iter().map(|flow| u64::from(flow.bytes)).sum::<u64>();
        assert_eq!(bytes(&cut), bytes(&whole), "{kind:?}");
        assert!(cut.iter().all(|flow| flow.bytes <= slot), "{kind:?}");
        assert!(cut.len() > whole.len() && cut.len() <= kind.flows(4, 1 << 20, Some(slot)));
        assert!(cut.iter().all(|flow| flow.after.iter().all(|after| after.delivered)));
    }
    // A piece of a ring is four spans, each of which waits for itself at the rank before.
    let ring = collective(Collective::RingAllReduce, hosts, 1 << 20, Some(slot));
    assert_eq!(ring.iter().filter(|flow| flow.after.is_empty()).count() as u32, 4 * hosts);
    assert!(ring.iter().all(|flow| flow.after.len() <= 1));
}

#[test]
fn pairwise_exchanges_go_to_one_host_at_a_time() {
    let flows = collective(Collective::PairwiseAllToAll, 5, 500_000, None);
    assert_eq!(flows.len(), 20);
    for flow in &flows {
        let distance = (flow.destination + 5 - flow.source) % 5;
        let before: Vec<u32> =
            flow.after.iter().map(|after| flows[after.flow as usize].source).collect();
        let expected = if distance == 1 { vec![] } else { vec![(flow.source + 6 - distance) % 5] };
        assert_eq!(before, expected, "{flow:?}");
    }
}

#[test]
fn tokens_go_to_their_experts_and_come_back() {
    let bytes = |flows: &[Flow], to: u32| -> u64 {
        let to = flows.iter().filter(|flow| flow.destination == to && flow.after.is_empty());
        to.map(|flow| u64::from(flow.bytes)).sum()
    };
    let busiest = |skew_permille| {
        let moe = Moe { skew_permille, ..Moe::default() };
        let flows = moe.flows(32, 7168, 3).expect("flows");
        let (out, back): (Vec<_>, Vec<_>) = flows.iter().partition(|flow| flow.after.is_empty());
        assert_eq!(out.len(), back.len());
        for answer in back {
            let of = out.iter().find(|flow| {
                (flow.source, flow.destination) == (answer.destination, answer.source)
            });
            assert_eq!(of.map(|flow| 2 * flow.bytes), Some(answer.bytes));
            let all = answer.after.iter().map(|after| &flows[after.flow as usize]);
            assert!(all.clone().all(|flow| flow.destination == answer.source));
            assert_eq!(all.count(), out.iter().filter(|f| f.destination == answer.source).count());
        }
        (0..32).map(|host| bytes(&flows, host)).max().expect("hosts")
    };
    // About 128 tokens of 8 experts from each of 31 hosts: an equal share is near 7.9 MB.
    let equal = busiest(0);
    assert!((6_000_000..9_000_000).contains(&equal), "{equal}");
    assert!(busiest(1000) > 2 * equal, "{}", busiest(1000));
}

#[test]
fn pieces_are_all_of_it() {
    let flows = in_pieces(&permutation(8, 1001, 1), 4);
    assert_eq!(flows.len(), 32);
    let lengths: Vec<u32> = flows[..4].iter().map(|flow| flow.bytes).collect();
    assert_eq!(lengths, [251, 250, 250, 250]);
    assert_eq!(in_pieces(&permutation(8, 2, 1), 4).len(), 16);
}
