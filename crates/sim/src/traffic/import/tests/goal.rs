use super::{Traced, fails, messages, read, waits};
use crate::traffic::Flow;

fn flows(text: &str) -> Vec<Flow> {
    match read(&[("a.goal", text.as_bytes())]) {
        Ok(Traced::Schedule(schedule)) => schedule.flows,
        other => panic!("no schedule: {other:?}"),
    }
}

/// Three ranks: a pipeline with computing, written as LogGOPSim's tools do.
const PIPELINE: &str = "num_ranks 3\n\nrank 0 {\nl1: calc 100\nl2: send 8b to 1 tag 5\n\
                        l2 requires l1\n}\n\n\
                        rank 1 {\nl1: recv 8b from 0 tag 5\nl2: calc 2000 cpu 1\n\
                        l2 requires l1\nl3: send 16b to 2 tag 5 cpu 0 nic 1\nl3 requires l2\n}\n\
                        rank 2 {\nl1: recv 16b from 1 tag 5\n}\n";

#[test]
fn sends_are_messages_that_wait_for_what_they_require() {
    assert_eq!(messages(&[("a.goal", PIPELINE.as_bytes())]), (2, 24));
    let flows = flows(PIPELINE);
    let of = |from, to| {
        let mut flows = flows.iter();
        flows.position(|flow| (flow.source, flow.destination) == (from, to)).expect("a message")
    };
    let (first, second) = (of(0, 1), of(1, 2));
    assert!(waits(&flows, second, first) && !waits(&flows, first, second));
    // 100 and 2000 ns.
    assert!(
        flows.iter().any(|flow| flow.is_step() && flow.source == 0 && flow.start_ps == 100_000)
    );
    assert!(
        flows.iter().any(|flow| flow.is_step() && flow.source == 1 && flow.delay_ps == 2_000_000)
    );
    let spans =
        read(&[("a.goal", PIPELINE.as_bytes())]).expect("a trace").flows(None).expect("flows").1;
    let spans: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.bytes)).collect();
    assert_eq!(spans, [("rank 0", 8), ("rank 1", 16), ("rank 2", 0)]);
}

#[test]
fn statements_may_share_a_line_and_comments_are_passed_over() {
    let text = "num_ranks 2 // two\nrank 0 { l1: calc 100 ; l2: send 8 b to 1 tag 5; \
                l2 requires l1 }\n\
                /* the\nother */ rank 1 { recv 8b from 0 tag 5 }";
    assert_eq!(messages(&[("a.goal", text.as_bytes())]), (1, 8));
}

#[test]
fn irequires_waits_for_the_beginning_only() {
    let text = |word: &str| {
        format!(
            "num_ranks 2 rank 0 {{ c: calc 5000 s: send 9b to 1 s {word} c \
             a: calc 7 c requires a }} \
                 rank 1 {{ recv 9b from 0 }}"
        )
    };
    for (word, for_end) in [("requires", true), ("irequires", false)] {
        let flows = flows(&text(word));
        let at = |found: &dyn Fn(&Flow) -> bool| flows.iter().position(found).expect("a flow");
        let send = at(&|flow| flow.bytes == 9);
        let long = at(&|flow| flow.delay_ps == 5_000_000);
        let before = at(&|flow| flow.start_ps == 7_000);
        assert_eq!(waits(&flows, send, long), for_end, "{word}: {flows:?}");
        assert!(waits(&flows, send, before), "{word}: {flows:?}");
    }
}

#[test]
fn receives_match_by_sender_and_tag_in_order_and_any_takes_the_rest() {
    let text = "num_ranks 3 rank 0 { send 1b to 2 tag 7 send 2b to 2 tag 8 }\
                rank 1 { send 4b to 2 tag 7 }\
                rank 2 { x: recv 8b from -1 tag -1 y: recv 8b from 0 tag 7 \
                z: recv 8b from -1 tag 7 }";
    let flows = flows(text);
    let own: Vec<&Flow> = flows.iter().filter(|flow| flow.source == 2).collect();
    let bytes: Vec<u32> = own.iter().map(|flow| flows[flow.after[0].flow as usize].bytes).collect();
    assert_eq!(bytes, [2, 1, 4]);
    assert!(own.iter().all(|flow| flow.after[0].delivered));
}

#[test]
fn messages_to_the_rank_itself_take_no_network() {
    let text = "num_ranks 2 rank 0 { s: send 5b to 0 r: recv 5b from 0 t: send 1b to 1 \
                t requires r } \
                rank 1 { recv 1b from 0 }";
    assert_eq!(messages(&[("a.goal", text.as_bytes())]), (1, 1));
    let flows = flows(text);
    assert!(waits(&flows, 2, 0), "{flows:?}");
}

#[test]
fn wrong_schedules_are_refused_with_the_line_and_a_remedy() {
    let with = |from: &str, to: &str| PIPELINE.replacen(from, to, 1);
    let cases: [(String, &[&str]); 14] = [
        (with("num_ranks 3", "num_ranks 1"), &["line 1", "'1'", "2 to 262144"]),
        (with("num_ranks 3", "num_ranks 2"), &["line 13", "rank 2", "0 to 1"]),
        (with("send 8b to 1", "send 8b from 1"), &["line 5", "'from'", "to and a rank"]),
        (with("send 8b", "send 8k"), &["line 5", "'k'", "b behind"]),
        (with("l2 requires l1", "l2 needs l1"), &["line 6", "'needs'", "requires"]),
        (with("l2 requires l1", "l2 requires l9"), &["line 6", "'l9'", "nowhere"]),
        (with("l2: calc", "l1: calc"), &["line 11", "'l1'", "twice"]),
        (with("rank 1", "rank 0"), &["line 9", "'rank 0'", "twice"]),
        (
            with("recv 8b from 0 tag 5", "recv 8b from 0 tag 6"),
            &["line 10", "no send", "ranks 0 and 1"],
        ),
        (with("l1: recv 16b from 1 tag 5\n", ""), &["line 13", "no recv", "ranks 1 and 2"]),
        (with("l1: calc 100", "l1: calc 1000000000001"), &["line 4", "1000000000001", "at most"]),
        (with("send 8b", "send 4294967296b"), &["line 5", "4294967296 bytes", "4294967295"]),
        (with("l1: calc 100", "l1: calc 100\nl1 requires l2"), &["line", "waits for itself"]),
        (format!("{PIPELINE}/* open"), &["line 19", "*/"]),
    ];
    for (text, words) in cases {
        fails(&[("a.goal", text.as_bytes())], &[words, &["a.goal"][..]].concat());
    }
    fails(&[("a.goal", b"num_ranks 2")], &["a.goal", "no operation"]);
    // A brace is missing at the end.
    let open = PIPELINE.trim_end().trim_end_matches('}');
    fails(&[("a.goal", open.as_bytes())], &["a.goal: line 18", "the end of the file", "}"]);
}
