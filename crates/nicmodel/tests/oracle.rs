//! If nothing is ever occupied and the published constants are used, running the engines takes
//! exactly the time of the paper's closed form, to the nanosecond.
//!
//! The results of the OpenURMA paper include 354 deterministic rows: 215 of `sweep.csv`, 72 of its
//! spill sweep (Fig. 14), 22 of its fan-out (Fig. 15), 36 of its lock contention (Fig. 27), 9 of
//! its calibration (Fig. 12). The rows themselves are not stored here; [`rows`] generates them from
//! a description of the sweeps. Section A of `sweep.csv` is described as "locality 0 or uncached",
//! which gives 96 rows, where the count of 215 requires 48; so this test has 48 more.

use fairway_nicmodel::{CachePolicy, Config, Report, Stack, Verb, WorkloadKind, run};

/// A row of the results.
#[derive(Clone, Debug)]
struct Row {
    section: &'static str,
    stack: Stack,
    verb: Verb,
    payload: u32,
    link: u64,
    /// Jetties and remote nodes.
    n: u64,
    /// Remote endpoints.
    k: u64,
    psn: u64,
    cache: CachePolicy,
}

const STACKS: [Stack; 4] = [Stack::UbLdst, Stack::UbUrma, Stack::RoceBf, Stack::RoceDma];
const PAYLOADS: [u32; 7] = [8, 64, 256, 1024, 4096, 16_384, 65_536];
const LINKS: [u64; 4] = [50, 100, 200, 500];

fn row(section: &'static str, stack: Stack, verb: Verb, payload: u32, link: u64) -> Row {
    let cache = CachePolicy::Uncached;
    Row { section, stack, verb, payload, link, n: 1, k: 1, psn: 50, cache }
}

fn read(stack: Stack) -> Verb {
    if stack == Stack::UbLdst { Verb::Load } else { Verb::Read }
}

fn sweep() -> Vec<Row> {
    let mut rows = Vec::new();
    for link in LINKS {
        for payload in [8, 64, 256, 1024] {
            for stack in STACKS {
                let first = row("A", stack, read(stack), payload, link);
                rows.push(first.clone());
                if stack == Stack::UbLdst {
                    // Write-back and write-through at locality 0; uncached at four localities.
                    rows.push(Row { cache: CachePolicy::WriteBack, ..first.clone() });
                    rows.push(Row { cache: CachePolicy::WriteThrough, ..first.clone() });
                    rows.extend(std::iter::repeat_n(first, 3));
                }
            }
        }
    }
    for payload in PAYLOADS {
        for stack in STACKS {
            if payload > 8 || stack != Stack::UbLdst {
                rows.push(row("B", stack, read(stack), payload, 100));
            }
            rows.push(row("C", stack, Verb::Write, payload, 100));
            rows.push(row("D", stack, Verb::Send, payload, 100));
        }
    }
    for link in LINKS {
        for stack in STACKS {
            rows.push(row("E", stack, Verb::FetchAdd, 8, link));
            rows.push(row("E", stack, Verb::CompareSwap, 8, link));
        }
    }
    rows.extend(STACKS.map(|stack| row("G", stack, read(stack), 64, 100)));
    rows
}

/// Returns all rows of one version of the paper.
fn rows(psn: u64) -> Vec<Row> {
    let mut rows = sweep();
    for n in [1, 2, 4, 8, 16, 22, 23, 32, 48, 64, 128, 256, 512, 1024, 1500, 2048, 3000, 4096] {
        rows.extend(STACKS.map(|stack| Row { n, ..row("spill", stack, read(stack), 64, 100) }));
    }
    for shift in 0..=10 {
        let stacks = [Stack::UbUrma, Stack::RoceDma];
        rows.extend(
            stacks.map(|stack| Row { k: 1 << shift, ..row("m2n", stack, Verb::Send, 64, 100) }),
        );
    }
    for shift in 0..=8 {
        let lock = |stack| row("cas", stack, Verb::CompareSwap, 8, 100);
        rows.extend(STACKS.map(|stack| Row { n: 1 << shift, ..lock(stack) }));
    }
    for link in [50, 100, 200] {
        rows.extend(
            [8, 64, 256].map(|payload| row("c1", Stack::RoceDma, Verb::Write, payload, link)),
        );
    }
    for row in &mut rows {
        row.psn = psn;
    }
    rows
}

/// The closed form of the paper's two-node simulator (§4.4; its cost model: §5.2). All times in ns.
fn closed_form(row: &Row) -> u64 {
    let by_instruction = row.stack == Stack::UbLdst && row.verb == Verb::Load;
    let ub = row.stack.is_ub();
    let cycles = match (by_instruction, ub) {
        (true, _) => 8,
        (false, true) => 25,
        (false, false) => 9,
    };
    let nic = |bytes: u64| (cycles + bytes.div_ceil(32).max(1) - 1) * 3106 / 1000;
    // 400 Gb/s are 50 bytes a ns.
    let wire = |bytes: u64| row.link + bytes / 50;
    let payload = u64::from(row.payload);
    let outgoing = row.verb.is_outgoing();
    let request = if outgoing { payload } else { 64 };
    let response = if row.verb.is_incoming() { payload } else { 8 };
    let spilled = if ub { 2 * row.n + row.k > 2048 } else { row.n * row.n * row.k > 512 };
    let refetch = if !spilled {
        0
    } else if ub {
        100
    } else {
        500
    };
    let mut total =
        2 * refetch + 2 * nic(request) + wire(request) + 2 * nic(response) + wire(response);
    total += if by_instruction { 70 + 30 } else { 50 + 30 };
    if ub {
        total += if by_instruction { 0 } else { 30 };
        total += 30 + 30 + 30;
    } else {
        let inline = row.stack == Stack::RoceBf && payload <= 64;
        total += 150 + if inline { 0 } else { 500 } + row.psn;
        total += if outgoing { 250 } else { 500 } + 30 + 250;
        total += if row.verb.is_incoming() { 250 } else { 0 };
    }
    if row.verb == Verb::Send {
        total += 54 + if !ub && row.k > 1 { 200 } else { 0 };
    }
    if !by_instruction {
        total += 30 + if ub { 5 } else { 70 };
    }
    total
}

fn simulate(row: &Row) -> Report {
    let mut config = Config {
        stack: row.stack,
        verb: row.verb,
        payload: row.payload,
        link_ns: row.link as f64,
        jetties: row.n as u32,
        connections: row.n as u32,
        remote_jetties: row.k as u32,
        cache: row.cache,
        ops: 4,
        oracle: true,
        workload: match row.section {
            "A" | "spill" | "G" => WorkloadKind::PointerChase,
            _ => WorkloadKind::Bulk,
        },
        ..Config::default()
    };
    config.constants.roce_psn_ns = row.psn as f64;
    run(&config).unwrap_or_else(|error| panic!("{row:?}: {error}"))
}

#[test]
fn all_rows_of_both_versions_to_the_nanosecond() {
    for psn in [0, 50] {
        let rows = rows(psn);
        assert_eq!(rows.len(), 402, "354, and 48 that the wording includes");
        for row in rows {
            let (expected, report) = (closed_form(&row), simulate(&row));
            assert_eq!(report.ops, 4);
            assert!(report.is_deterministic, "{row:?}: {report:?}");
            assert_eq!(report.mean_ns, expected as f64, "{row:?}: {:?}", report.phases);
        }
    }
}

/// Figures that the paper and its artifact publish, as evidence beside the closed form above.
#[test]
fn printed_figures() {
    use Stack::{RoceBf as Bf, RoceDma as Dma, UbLdst as Ldst, UbUrma as Urma};
    let figures = [
        (row("B", Ldst, Verb::Load, 64, 100), [500, 500]),
        (row("B", Urma, Verb::Read, 64, 100), [757, 757]),
        (row("B", Bf, Verb::Read, 64, 100), [1686, 1736]),
        (row("B", Dma, Verb::Read, 64, 100), [2186, 2236]),
        (row("C", Urma, Verb::Write, 64, 100), [750, 750]),
        (row("C", Bf, Verb::Write, 64, 100), [1177, 1227]),
        (row("C", Dma, Verb::Write, 64, 100), [1677, 1727]),
        (row("D", Urma, Verb::Send, 64, 100), [804, 804]),
        (row("D", Bf, Verb::Send, 64, 100), [1231, 1281]),
        (row("D", Dma, Verb::Send, 64, 100), [1731, 1781]),
        (row("E", Urma, Verb::CompareSwap, 8, 100), [750, 750]),
        (row("E", Bf, Verb::FetchAdd, 8, 100), [1427, 1477]),
        (row("E", Dma, Verb::FetchAdd, 8, 100), [1927, 1977]),
        (row("A", Ldst, Verb::Load, 64, 500), [1300, 1300]),
        (row("A", Dma, Verb::Read, 64, 500), [2986, 3036]),
        (row("B", Ldst, Verb::Load, 4096, 100), [1364, 1364]),
        (row("B", Urma, Verb::Read, 4096, 100), [1621, 1621]),
        (row("B", Dma, Verb::Read, 4096, 100), [3048, 3098]),
        (row("B", Ldst, Verb::Load, 65_536, 100), [14_519, 14_519]),
        (row("C", Urma, Verb::Write, 65_536, 100), [14_769, 14_769]),
        (row("D", Dma, Verb::Send, 65_536, 100), [15_748, 15_798]),
        (row("c1", Dma, Verb::Write, 256, 200), [1917, 1967]),
        (Row { n: 1024, ..row("spill", Ldst, Verb::Load, 64, 100) }, [700, 700]),
        (Row { n: 512, ..row("spill", Urma, Verb::Read, 64, 100) }, [757, 757]),
        (Row { n: 22, ..row("spill", Dma, Verb::Read, 64, 100) }, [2186, 2236]),
        (Row { n: 23, ..row("spill", Dma, Verb::Read, 64, 100) }, [3186, 3236]),
        (Row { k: 512, ..row("m2n", Dma, Verb::Send, 64, 100) }, [1931, 1981]),
        (Row { k: 1024, ..row("m2n", Dma, Verb::Send, 64, 100) }, [2931, 2981]),
        (Row { n: 32, ..row("cas", Bf, Verb::CompareSwap, 8, 100) }, [2427, 2477]),
    ];
    for (row, expected) in figures {
        for (psn, expected) in [0, 50].into_iter().zip(expected) {
            let row = Row { psn, ..row.clone() };
            assert_eq!(closed_form(&row), expected, "{row:?}");
            assert_eq!(simulate(&row).mean_ns, expected as f64, "{row:?}");
        }
    }
}
