use super::{OperationKind, fails, messages, operations};
use crate::traffic::Collective;

/// Appends a varint.
fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7F {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A field of protobuf with a number, or with bytes.
fn number(field: u64, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, field << 3);
    varint(&mut bytes, value);
    bytes
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, field << 3 | 2);
    varint(&mut bytes, value.len() as u64);
    bytes.extend(value);
    bytes
}

/// A node; attributes have the number of the field of their value.
fn node(
    id: u64,
    kind: u64,
    after: &[u64],
    micros: u64,
    attributes: &[(&str, u64, u64)],
) -> Vec<u8> {
    let mut packed = Vec::new();
    after.iter().for_each(|other| varint(&mut packed, *other));
    let mut node =
        [number(1, id), bytes(2, format!("node{id}").as_bytes()), number(3, kind)].concat();
    node.extend([bytes(5, &packed), number(7, micros)].concat());
    for (name, field, value) in attributes {
        node.extend(bytes(10, &[bytes(1, name.as_bytes()), number(*field, *value)].concat()));
    }
    node
}

/// A file: metadata and nodes, each with its length.
pub(super) fn file(nodes: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for message in [vec![bytes(1, b"0.0.4")], nodes.to_vec()].concat() {
        varint(&mut file, message.len() as u64);
        file.extend(message);
    }
    file
}

/// Fields of `AttributeProto`: int64, uint64, uint32.
const INT64: u64 = 9;
const UINT64: u64 = 13;
const UINT32: u64 = 11;

/// A rank computes for 5 us, sums 4,000 bytes with the other, and sends or receives 96.
pub(super) fn rank(rank: u64) -> Vec<u8> {
    let peer = if rank == 0 { ("comm_dst", UINT32, 1) } else { ("comm_src", UINT32, 0) };
    file(&[
        node(0, 4, &[], 5, &[]),
        node(1, 7, &[0], 0, &[("comm_type", INT64, 0), ("comm_size", UINT64, 4000)]),
        node(2, 5 + rank, &[1], 0, &[peer, ("comm_size", UINT64, 96), ("comm_tag", UINT32, 3)]),
    ])
}

#[test]
fn nodes_of_protobuf_become_operations() {
    let (zero, one) = (rank(0), rank(1));
    // The numbers in the names count, not the order.
    let files: [(&str, &[u8]); 2] = [("step.1.et", &one), ("step.0.et", &zero)];
    let operations = operations(&files);
    let kinds: Vec<_> =
        operations.iter().map(|one| (one.kind, one.ranks.clone(), one.bytes)).collect();
    let compute = OperationKind::Compute { ps: 5_000_000 };
    let sum = OperationKind::Collective(Collective::RingAllReduce);
    let expected = [
        (compute, vec![0], 0),
        (compute, vec![1], 0),
        (sum, vec![0, 1], 4000),
        (OperationKind::Send, vec![0, 1], 96),
    ];
    assert_eq!(kinds.len(), 4);
    assert!(expected.iter().all(|one| kinds.contains(one)), "{kinds:?}");
    // 4 halves of 4,000 bytes, and the message.
    assert_eq!(messages(&files), (5, 8000 + 96));
    let after =
        |kind| operations.iter().find(|one| one.kind == kind).and_then(|one| one.after.clone());
    assert_eq!(after(sum).map(|after| after.len()), Some(2));
}

/// The same as JSON, as protobuf's library writes it: without what is 0, and long numbers as text.
pub(super) fn json(rank: u64) -> String {
    let (kind, peer) = if rank == 0 {
        ("SEND", "comm_dst\", \"uint32Val\": 1")
    } else {
        ("RECV", "comm_src\", \"uint32Val\": 0")
    };
    format!(
        r#"{{"version": "0.0.4"}}{{"name": "node0", "type": "COMP_NODE", "durationMicros": "5"}}
{{"id": "1", "name": "node1", "type": "COMM_COLL_NODE", "dataDeps": ["0"],
  "attr": [{{"name": "comm_type", "int64Val": "0"}}, {{"name": "comm_size", "uint64Val": "4000"}}]}}
{{"id": "2", "name": "node2", "type": "COMM_{kind}_NODE", "dataDeps": ["1"], "attr":
  [{{"name": "{peer}}}, {{"name": "comm_size", "uint64Val": "96"}}, {{"name": "comm_tag",
   "uint32Val": 3}}]}}"#
    )
}

#[test]
fn json_is_the_same_as_protobuf() {
    let binary = [rank(0), rank(1)];
    let text = [json(0), json(1)];
    let files: [(&str, &[u8]); 2] = [("0.et", &binary[0]), ("1.et", &binary[1])];
    let same: [(&str, &[u8]); 2] = [("0.json", text[0].as_bytes()), ("1.json", text[1].as_bytes())];
    assert_eq!(operations(&same), operations(&files));
}

#[test]
fn workload_graph_is_read_and_process_groups_have_their_members() {
    let graph = |group: &str| {
        format!(
            r#"{{"workload_graph": [
            {{"Id": 4, "Name": "sum", "NodeType": 7, "data_deps": [],
              "comm_type": 0, "comm_size": 64, "pg_name": "{group}"}},
            {{"Id": 5, "Name": "all", "NodeType": 7, "data_deps": [4],
              "comm_type": 2, "comm_size": 10}},
            {{"Id": 6, "Name": "tree", "NodeType": 7, "data_deps": [5],
              "comm_type": 5, "comm_size": 8, "root": 2}}]}}"#
        )
    };
    let texts = ["x", "y", "x", "y"].map(graph);
    let names = ["r0", "r1", "r2", "r3"];
    let files: Vec<(&str, &[u8])> =
        names.into_iter().zip(texts.iter().map(String::as_bytes)).collect();
    let operations = operations(&files);
    let sums: Vec<_> = operations.iter().filter(|one| one.name == "sum").collect();
    let mut members: Vec<_> = sums.iter().map(|one| one.ranks.clone()).collect();
    members.sort();
    assert_eq!(members, [[0, 2], [1, 3]]);
    let of = |name: &str| operations.iter().find(|one| one.name == name).expect("an operation");
    // 10 bytes of each of four ranks.
    assert_eq!((of("all").bytes, of("all").ranks.len()), (40, 4));
    assert_eq!(of("tree").ranks, [2, 3, 0, 1]);
}

#[test]
fn calls_on_the_cpu_without_a_size_only_take_time() {
    const BOOL: u64 = 27;
    let file = file(&[
        node(0, 7, &[], 9, &[("is_cpu_op", BOOL, 1)]),
        node(
            1,
            7,
            &[0],
            0,
            &[("is_cpu_op", BOOL, 0), ("comm_type", INT64, 2), ("comm_size", UINT64, 6)],
        ),
    ]);
    let files: [(&str, &[u8]); 2] = [("0.et", &file), ("1.et", &file)];
    let operations = operations(&files);
    let gather = OperationKind::Collective(Collective::AllGather);
    let kinds: Vec<_> = operations.iter().map(|one| (one.kind, one.bytes)).collect();
    let compute = (OperationKind::Compute { ps: 9_000_000 }, 0);
    assert_eq!(kinds, [compute, compute, (gather, 12)]);
    let json = r#"{"workload_graph": [
        {"Id": 0, "Name": "c10d", "NodeType": 7, "data_deps": [], "runtime": 9, "is_cpu_op": true},
        {"Id": 1, "Name": "nccl", "NodeType": 7, "data_deps": [0], "is_cpu_op": false,
         "ctrlDeps": [77], "comm_type": 2, "comm_size": 6}]}"#;
    let same: [(&str, &[u8]); 2] = [("0.json", json.as_bytes()), ("1.json", json.as_bytes())];
    assert_eq!(messages(&same), messages(&files));
}

#[test]
fn wrong_traces_are_refused_with_the_place_and_a_remedy() {
    let (zero, one) = (rank(0), rank(1));
    fails(&[("a.0.et", &zero)], &["a.0.et", "1 ranks", "a file for each rank"]);
    let cut = &one[..one.len() - 3];
    fails(&[("a.0.et", &zero), ("a.1.et", cut)], &["a.1.et: byte", "protobuf", "whole"]);
    fails(&[("a.0.et", &zero), ("a.1.et", &zero)], &["a.0.et", "no recv", "ranks 0 and 1"]);
    let of = |nodes: &[Vec<u8>]| file(nodes);
    let sum = |bytes| node(1, 7, &[], 0, &[("comm_type", INT64, 0), ("comm_size", UINT64, bytes)]);
    let (some, more) = (of(&[sum(8)]), of(&[sum(9)]));
    fails(
        &[("a.0.et", &some), ("a.1.et", &more)],
        &["a.1.et: byte", "9 bytes", "a.0.et: byte", "8 bytes"],
    );
    let twice = of(&[sum(8), sum(8)]);
    fails(&[("a.0.et", &twice), ("a.1.et", &some)], &["a.0.et", "node 1", "twice"]);
    let unknown = of(&[node(1, 7, &[], 0, &[("comm_type", INT64, 77), ("comm_size", UINT64, 1)])]);
    fails(
        &[("a.0.et", &unknown), ("a.1.et", &some)],
        &["node 1 (node1)", "comm_type", "ALL_REDUCE"],
    );
    let no_size = of(&[node(1, 7, &[], 0, &[("comm_type", INT64, 0)])]);
    fails(&[("a.0.et", &no_size), ("a.1.et", &some)], &["comm_size", "correct"]);
    let dangling = of(&[node(3, 4, &[9], 1, &[])]);
    fails(&[("a.0.et", &dangling), ("a.1.et", &some)], &["a.0.et", "'node 9'", "nowhere"]);
    let circle = of(&[node(3, 4, &[4], 1, &[]), node(4, 4, &[3], 1, &[])]);
    fails(&[("a.0.et", &circle), ("a.1.et", &circle)], &["a.0.et", "node3", "waits for itself"]);
    let text = json(0);
    let broken = text.replacen("\"5\"}", "\"5\"", 1);
    fails(
        &[("0.json", broken.as_bytes()), ("1.json", b"{}")],
        &["0.json: line", "no JSON", "whole"],
    );
    fails(&[("0.json", text.as_bytes()), ("1.json", b"{}")], &["1.json", "no node"]);
    let kind = text.replacen("COMP_NODE", "COFFEE_NODE", 1);
    fails(
        &[("0.json", kind.as_bytes()), ("1.json", b"{}")],
        &["0.json: node 1", "COFFEE_NODE", "type"],
    );
}

#[test]
fn numbers_in_names_are_the_ranks_and_have_no_gap() {
    let empty = file(&[node(0, 4, &[], 5, &[])]);
    let named = |names: &[&'static str]| {
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &empty[..])).collect();
        super::read(&files).map(drop).map_err(|error| error.to_string())
    };
    for (names, words) in [
        (&["a.0.et", "a.2.et"][..], ["rank 1", "a.0.et and a.2.et"]),
        (&["a.0.et", "b.0.et"], ["both have rank 0", "a.0.et and b.0.et"]),
        (&["a.2.et", "a.3.et"], ["a.2.et", "count from 0 or 1"]),
        (&["a.0.et", "a.0.et"], ["a.0.et", "given twice"]),
    ] {
        let error = named(names).expect_err("wrong numbers");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert_eq!(named(&["first.et", "second.et"]), Ok(()));
    // A shell sorts the names of 1 to 11 as text. The tenth rank computes longest.
    let slow = file(&[node(0, 4, &[], 99, &[])]);
    let names: Vec<String> = [1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
        .iter()
        .map(|number| format!("step.{number}.et"))
        .collect();
    let files = names.iter().map(|name| {
        let bytes = if name == "step.10.et" { &slow } else { &empty };
        (name.as_str(), &bytes[..])
    });
    let operations = operations(&files.collect::<Vec<_>>());
    let longest = OperationKind::Compute { ps: 99_000_000 };
    let found = operations.iter().find(|one| one.kind == longest).expect("the tenth");
    assert_eq!(found.ranks, [9]);
}

#[test]
fn a_wrong_duration_is_named_and_not_the_whole_node() {
    for wrong in ["1e300", "-5", "0.5"] {
        let text = format!(r#"{{"id": 1, "type": 4, "runtime": {wrong}}}"#);
        fails(&[("a.0.json", text.as_bytes()), ("a.1.json", b"{}")], &["runtime", "whole micro"]);
    }
}
