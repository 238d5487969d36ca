use super::*;

fn parse(text: &str) -> Trace {
    parse_trace(text).expect("a trace")
}

#[test]
fn a_trace_is_read() {
    let trace = parse(
        "# a step\nranks 8\ngroup pair 0,4\n\ncompute all 100us # first\nsum: all-reduce 0-3 64M\n\
         work: compute 0-3 1ms after=-\nall-reduce pair 8M tree after=sum,work\nsend 0->4 1K\n",
    );
    assert_eq!((trace.ranks, trace.operations.len()), (8, 5));
    let [all, sum, work, pair, send] = trace.operations.as_slice() else { panic!("five") };
    assert_eq!(all.kind, OperationKind::Compute { ps: 100_000_000 });
    assert_eq!((all.ranks.len(), all.name.as_str(), &all.after), (8, "compute", &None));
    assert_eq!((sum.bytes, sum.name.as_str()), (64 << 20, "sum"));
    assert_eq!(sum.kind, OperationKind::Collective(Collective::RingAllReduce));
    assert_eq!(work.after, Some(vec![]));
    assert_eq!((&pair.ranks, &pair.after), (&vec![0, 4], &Some(vec![1, 2])));
    assert_eq!(pair.kind, OperationKind::Collective(Collective::TreeAllReduce));
    assert_eq!((send.kind, &send.ranks), (OperationKind::Send, &vec![0, 4]));
}

#[test]
fn errors_name_the_line() {
    for (text, words) in [
        ("", "ranks 8"),
        ("ranks 8", "without an operation"),
        ("all-reduce all 1M", "line 1: ranks come first"),
        ("ranks 1", "2 to 262144"),
        ("ranks 99999999999", "2 to 262144"),
        ("ranks 8\nranks 8", "line 2: the number of ranks was given before"),
        ("ranks 8\nall-reduce", "'all-reduce' is no operation"),
        ("ranks 8\nall-reduce all", "what, who and how much"),
        ("ranks 8\nall-reduce all 0", "'0' is no size"),
        ("ranks 8\nall-reduce all 4G", "less than 4G"),
        ("ranks 8\nall-reduce all 1M star", "'star' is nothing that all-reduce takes"),
        ("ranks 8\nbanana all 1M", "'banana' is no operation: they are compute"),
        ("ranks 8\ncompute all 1M", "'1M' is no time"),
        ("ranks 8\ncompute all 18446744073709551615s", "is no time"),
        ("ranks 8\ncompute all 1ms ring", "'ring' is nothing that compute takes"),
        ("ranks 8\nall-reduce 0-8 1M", "'8' is no rank: they are 0 to 7"),
        ("ranks 8\nall-reduce 3-1 1M", "has no rank"),
        ("ranks 8\nall-reduce 0,1,0 1M", "rank 0 is twice"),
        ("ranks 8\nall-reduce 0,,1 1M", "'' is no rank"),
        ("ranks 8\nall-reduce tp 1M", "there is no group 'tp' above"),
        ("ranks 8\ngroup all 0-3", "a name of its own"),
        ("ranks 8\ngroup 0 0-3", "with a letter"),
        ("ranks 8\ngroup a 0-3\ngroup a 4-7", "line 3: 'a'"),
        ("ranks 8\nsend 0-3 1M", "as 0->4"),
        ("ranks 8\nsend 3->3 1M", "as 0->4"),
        ("ranks 8\n: send 0->3 1M", "':'"),
        ("ranks 8\nx: send 0->3 1M\nx: send 0->3 1M", "line 3: 'x:'"),
        ("ranks 8\nx: send 0->3 1M after=x", "after=x: no operation above"),
        ("ranks 8\nsend 0->3 1M after=", "after=: no operation above"),
        ("ranks 8\nafter=-", "'' is no operation"),
        ("ranks 262144\nall-to-all all 1G", ""),
    ] {
        match parse_trace(text) {
            Err(error) => {
                assert!(error.to_string().contains(words) && !words.is_empty(), "{text}: {error}")
            }
            Ok(trace) => assert!(words.is_empty() && trace.flows(None).is_err(), "{text}"),
        }
    }
    let many = format!("ranks 262144\n{}", "compute all 1us\n".repeat(17));
    assert!(parse_trace(&many).expect_err("too much").to_string().contains("line 18"));
}

/// A truncated or altered trace is either parsed or rejected, and a parsed one makes flows that
/// wait only for earlier ones.
#[test]
fn damaged_traces_do_no_harm() {
    let text = "ranks 8\ngroup pair 0,4\ncompute all 9us\nsum: all-reduce 0-3 64M\n\
                w: compute 0-3 1ms after=-\nall-reduce pair 8M tree after=sum,w\nsend 0->4 1M\n";
    let mut random = fairway_device::random::Random::fork(7, 1);
    for _ in 0..4000 {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = b" \n-,=>:09azM"[random.below(12) as usize],
                _ => bytes.insert(at, b" \n-,=>:09azM"[random.below(12) as usize]),
            }
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let Ok(trace) = parse_trace(&text) else { continue };
        let Ok((flows, spans)) = trace.flows(None) else { continue };
        assert_eq!(spans.len(), trace.operations.len());
        for (index, flow) in flows.iter().enumerate() {
            assert!(flow.is_step() || (flow.bytes > 0 && flow.source != flow.destination));
            let earlier = |after: &After| (after.flow as usize) < index;
            assert!(spans.last().is_some_and(|span| index < span.flows.end));
            // In a tree, flows down wait for flows up, which precede them; rings go step by step.
            assert!(flow.after.iter().all(earlier), "{text}");
        }
    }
}

/// A ring of four: each flow waits for its rank, and each rank's end waits for the last data it
/// receives.
#[test]
fn an_operation_begins_when_its_ranks_do() {
    let trace = parse("ranks 4\ncompute all 5us\nall-gather all 4K\n");
    let (flows, spans) = trace.flows(None).expect("few");
    assert_eq!(spans[0].flows, 0..4);
    assert_eq!(spans[1].flows, 4..4 + 12 + 4);
    assert!(flows[..4].iter().all(|flow| flow.is_step() && flow.start_ps == 5_000_000));
    let (first, second) = (&flows[4], &flows[8]);
    assert_eq!((first.source, first.destination, first.bytes), (0, 1, 1024));
    assert_eq!(first.after, [placed(0)]);
    assert_eq!(second.after, [placed(0), placed(7)]);
    let end = &flows[4 + 12];
    let sent = [4, 8, 12].map(|flow| After { flow, delivered: false });
    assert_eq!(end.after, [vec![placed(0), placed(15)], sent.to_vec()].concat());
}

#[test]
fn trees_go_down_and_up() {
    let (flows, _) = parse("ranks 5\nbroadcast 4,0,1,2,3 1M\n").flows(None).expect("few");
    let ends: Vec<_> = flows[..4].iter().map(|flow| (flow.source, flow.destination)).collect();
    assert_eq!(ends, [(4, 0), (4, 1), (0, 2), (0, 3)]);
    assert_eq!((flows[0].after.len(), &flows[2].after), (0, &vec![placed(0)]));
    let (flows, _) = parse("ranks 5\nreduce 4,0,1,2,3 1M\n").flows(None).expect("few");
    let ends: Vec<_> = flows[..4].iter().map(|flow| (flow.source, flow.destination)).collect();
    assert_eq!(ends, [(1, 4), (2, 0), (3, 0), (0, 4)]);
    assert_eq!(flows[3].after, [placed(1), placed(2)]);
}
