use super::{OperationKind, fails, messages, operations};
use crate::traffic::Collective;

/// The beginning of a communicator, as a process of `host` logs it.
fn begun(host: &str, device: u32, comm: &str, rank: u32, ranks: u32, id: &str) -> String {
    format!(
        "{host}:7{device}:7{device} [{device}] NCCL INFO ncclCommInitRank comm {comm} rank {rank} \
         nranks {ranks} cudaDev {device} nvmlDev {device} busId 1b000 commId {id} - Init COMPLETE\n"
    )
}

/// A call. `what` is its name, count, datatype and root.
fn call(
    host: &str,
    device: u32,
    (name, count, kind, root): (&str, u64, u32, u32),
    (comm, ranks, number): (&str, u32, u32),
) -> String {
    format!(
        "{host}:7{device}:9{device} [{device}] NCCL INFO {name}: opCount {number:x} sendbuff \
         0x7f00 recvbuff (nil) count {count} datatype {kind} op 0 root {root} comm {comm} \
         [nranks={ranks}] stream 0x5{device}\n"
    )
}

/// Four processes on two hosts: all of them sum, and then pairs on each host gather.
fn four() -> String {
    let mut log = String::from("starting up\nn2:70:70 [0] NCCL INFO Bootstrap: Using eth0\n");
    let places = [("n2", 0, 2), ("n1", 0, 0), ("n1", 1, 1), ("n2", 1, 3)];
    for (host, device, rank) in places {
        log += &begun(host, device, "0xa0", rank, 4, "0x11");
        log +=
            &begun(host, device, "0xb0", rank % 2, 2, if host == "n1" { "0x22" } else { "0x33" });
    }
    for (host, device, _) in places {
        log += &call(host, device, ("AllReduce", 1000, 7, 0), ("0xa0", 4, 0));
        log += &call(host, device, ("AllGather", 250, 9, 0), ("0xb0", 2, 0));
        log += &call(host, device, ("Broadcast", 64, 0, 3), ("0xa0", 4, 1));
    }
    log
}

#[test]
fn calls_of_all_ranks_become_operations_of_their_communicators() {
    let log = four();
    let files: [(&str, &[u8]); 1] = [("nccl.log", log.as_bytes())];
    let operations = operations(&files);
    assert_eq!(operations.len(), 4);
    let of = |kind| operations.iter().filter(move |one| one.kind == kind).collect::<Vec<_>>();
    let sum = of(OperationKind::Collective(Collective::RingAllReduce));
    assert_eq!((sum[0].ranks.as_slice(), sum[0].bytes), (&[0, 1, 2, 3][..], 4000));
    // Each rank of a pair gives 250 elements of two bytes, and has those of both in the end.
    let gathers = of(OperationKind::Collective(Collective::AllGather));
    let members: Vec<_> = gathers.iter().map(|one| one.ranks.as_slice()).collect();
    assert!(members.contains(&&[0, 1][..]) && members.contains(&&[2, 3][..]), "{members:?}");
    assert!(gathers.iter().all(|one| one.bytes == 1000));
    let broadcast = of(OperationKind::Broadcast);
    assert_eq!((broadcast[0].ranks.as_slice(), broadcast[0].bytes), (&[3, 0, 1, 2][..], 64));
    // A ring of 4 ranks has 6 steps of 4 messages of a quarter; each pair 2 messages of a half; a
    // tree 3 messages of everything.
    assert_eq!(messages(&files), (24 + 4 + 3, 6 * 4000 + 4 * 500 + 3 * 64));
}

#[test]
fn files_of_single_ranks_are_the_same_as_one_of_all() {
    let log = four();
    let part = |host: &str| {
        let lines = log.lines().filter(|line| line.starts_with(host));
        lines.map(|line| format!("[2024-05-01 10:00:00] {line}\n")).collect::<String>()
    };
    let (one, two) = (part("n1:"), part("n2:"));
    let apart: [(&str, &[u8]); 2] = [("b.log", two.as_bytes()), ("a.log", one.as_bytes())];
    assert_eq!(operations(&apart), operations(&[("nccl.log", log.as_bytes())]));
}

#[test]
fn sends_of_one_group_go_on_together_and_the_next_call_waits_for_them() {
    let mut log = String::new();
    for rank in 0..3 {
        log += &begun("h", rank, "0xa0", rank, 3, "0x11");
    }
    for rank in 0..3 {
        // Each rank to each, itself included, as an all-to-all of PyTorch does.
        for peer in 0..3 {
            log += &call("h", rank, ("Send", 100, 7, peer), ("0xa0", 3, 5));
            log += &call("h", rank, ("Recv", 100, 7, peer), ("0xa0", 3, 5));
        }
        log += &call("h", rank, ("AllReduce", 3, 7, 0), ("0xa0", 3, 6));
    }
    let files: [(&str, &[u8]); 1] = [("log", log.as_bytes())];
    let operations = operations(&files);
    let sends: Vec<_> = operations.iter().filter(|one| one.kind == OperationKind::Send).collect();
    let mut pairs: Vec<_> = sends.iter().map(|one| (one.ranks[0], one.ranks[1])).collect();
    pairs.sort_unstable();
    assert_eq!(pairs, [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
    assert!(sends.iter().all(|one| one.bytes == 400 && one.after.as_deref() == Some(&[][..])));
    let sum = operations.last().expect("a sum");
    // It waits for the end of each rank's group.
    assert_eq!(sum.after.as_ref().map(Vec::len), Some(3));
    assert_eq!(messages(&files), (6 + 3 * 4, 6 * 400 + 4 * 12));
}

#[test]
fn gather_and_scatter_are_messages_and_other_streams_go_on_beside() {
    let mut log = String::new();
    for rank in 0..3 {
        log += &begun("h", rank, "0xa0", rank, 3, "0x11");
        log += &call("h", rank, ("Gather", 10, 8, 1), ("0xa0", 3, 0));
        let other = call("h", rank, ("Scatter", 5, 8, 2), ("0xa0", 3, 1));
        log += &other.replace("stream 0x5", "stream 0x6");
    }
    let operations = operations(&[("log", log.as_bytes())]);
    let mut ends: Vec<_> = operations.iter().map(|one| (one.ranks.clone(), one.bytes)).collect();
    ends.sort();
    let expected = [(vec![0, 1], 80), (vec![2, 0], 40), (vec![2, 1], 40), (vec![2, 1], 80)];
    assert_eq!(ends, expected);
    assert!(operations.iter().all(|one| one.after.as_deref() == Some(&[][..])));
}

#[test]
fn log_of_one_rank_stands_for_all_if_all_take_part() {
    let log = call("h", 3, ("AllReduce", 1 << 20, 6, 0), ("0xa0", 8, 0));
    let log = log.repeat(2);
    let operations = operations(&[("rank3.log", log.as_bytes())]);
    assert_eq!(operations.len(), 2);
    assert_eq!((operations[1].ranks.len(), operations[1].bytes), (8, 2 << 20));
    assert_eq!(operations[1].after.as_deref(), Some(&[0][..]));
    let pair = log + &call("h", 3, ("AllReduce", 1, 6, 0), ("0xb0", 2, 0));
    fails(&[("rank3.log", pair.as_bytes())], &["rank3.log: line 3", "0xb0 has 2", "INIT,COLL"]);
}

#[test]
fn ranks_of_old_logs_are_those_of_their_only_communicator() {
    let mut log = String::new();
    for rank in 0..3 {
        let line = begun("h", 2 - rank, "0xa0", rank, 3, "0x11");
        log += &line.replace(" commId 0x11", "");
        log += &call("h", 2 - rank, ("Send", 4, 0, (rank + 1) % 3), ("0xa0", 3, 0));
        log += &call("h", 2 - rank, ("Recv", 4, 0, (rank + 2) % 3), ("0xa0", 3, 0));
        log += &call("h", 2 - rank, ("Broadcast", 4, 0, 1), ("0xa0", 3, 1));
    }
    let operations = operations(&[("log", log.as_bytes())]);
    let mut ends: Vec<_> = operations.iter().map(|one| one.ranks.clone()).collect();
    ends.sort();
    assert_eq!(ends, [vec![0, 1], vec![1, 2], vec![1, 2, 0], vec![2, 0]]);
}

#[test]
fn rccl_names_ranks_in_each_line() {
    let line = |rank: u32, name: &str, peer: u32| {
        let process = 3 - rank;
        let line = call("h", process, (name, 16, 0, peer), ("0xa0", 4, 0));
        format!("{} task 0 globalrank {rank}\n", line.trim_end())
    };
    let mut log = String::new();
    for rank in 0..4 {
        log += &line(rank, "Send", (rank + 1) % 4);
        log += &line(rank, "Recv", (rank + 3) % 4);
    }
    let operations = operations(&[("log", log.as_bytes())]);
    let mut ends: Vec<_> = operations.iter().map(|one| one.ranks.clone()).collect();
    ends.sort();
    assert_eq!(ends, [[0, 1], [1, 2], [2, 3], [3, 0]]);
    let unnamed = log.replace("globalrank", "rank");
    fails(&[("log", unnamed.as_bytes())], &["log: line 7", "peer", "INIT,COLL"]);
}

#[test]
fn wrong_logs_are_refused_with_the_line_and_a_remedy() {
    let good = four();
    let with = |from: &str, to: &str| good.replacen(from, to, 1);
    let cases: [(String, &[&str]); 8] = [
        (with("datatype 7", "datatype 17"), &["line 11", "datatype 17", "0 to 11"]),
        (with("AllReduce:", "AllRedact:"), &["line 11", "AllRedact", "AllGather"]),
        (with(" count 1000 datatype 7 op 0", " count"), &["line 11", "'datatype'", "cut off"]),
        (
            good.replace("count 1000", "count 8000000000"),
            &["line 14", "32000000000 bytes", "4294967295"],
        ),
        (with("n2:70:90 [0] NCCL INFO AllR", "NCCL INFO AllR"), &["line 11", "host:pid:tid"]),
        (
            with("count 250", "count 251"),
            &["calls", "502 bytes", "500 bytes", "line 12", "same run"],
        ),
        (with("rank 2 nranks 4", "rank 9 nranks 4"), &["line 3", "rank 9", "0 to 3"]),
        (with("root 3", "root 4"), &["rank 4", "0 to 3"]),
    ];
    for (log, words) in cases {
        fails(&[("nccl.log", log.as_bytes())], &[words, &["nccl.log"][..]].concat());
    }
    // The last line is missing: one rank never broadcasts.
    let cut = &good[..good.trim_end().rfind('\n').expect("lines")];
    fails(&[("nccl.log", cut.as_bytes())], &["nccl.log", "rank 3 never calls", "Broadcast"]);
    // One process is missing.
    let three: String = good
        .lines()
        .filter(|line| !line.starts_with("n2:71"))
        .map(|line| format!("{line}\n"))
        .collect();
    fails(&[("nccl.log", three.as_bytes())], &["4 ranks", "logs of all ranks"]);
    let quiet = "h:1:1 [0] NCCL INFO Bootstrap: Using eth0\n";
    fails(&[("nccl.log", quiet.as_bytes())], &["nccl.log", "no call", "NCCL_DEBUG_SUBSYS"]);
}

#[test]
fn ranks_that_call_in_different_orders_are_refused() {
    let mut log = String::new();
    for rank in 0..2 {
        log += &begun("h", rank, "0xa0", rank, 2, "0x11");
        log += &begun("h", rank, "0xb0", rank, 2, "0x22");
        let comms = if rank == 0 { ["0xa0", "0xb0"] } else { ["0xb0", "0xa0"] };
        for comm in comms {
            log += &call("h", rank, ("AllReduce", 8, 7, 0), (comm, 2, 0));
        }
    }
    fails(&[("log", log.as_bytes())], &["log: line", "waits for itself", "order"]);
}
