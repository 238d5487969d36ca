use std::os::unix::process::ExitStatusExt as _;

use super::*;

fn ended(code: i32, text: &str) -> Ended {
    Ended { finish: Finish::Status(ExitStatus::from_raw(code << 8)), text: text.to_owned() }
}

fn late(text: &str) -> Ended {
    Ended { finish: Finish::Late, text: text.to_owned() }
}

fn word(proof: &Proof, halves: &[Ended]) -> (&'static str, String) {
    let verdict = judge(proof, None, halves, 60);
    (verdict.word(), verdict.reason)
}

const BANDWIDTH: &str = "\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      200            1226.12            1184.30              0.018949
---------------------------------------------------------------------------------------
";

#[test]
fn perftest_passes_with_its_result_row_only() {
    let proof = Proof::Rows(1);
    assert_eq!(word(&proof, &[ended(0, ""), ended(0, BANDWIDTH)]).0, "pass");
    for text in
        ["", " #bytes  #iterations  BW peak[MB/sec]\n", " 65536  200  0.00  0.00  0.000000\n"]
    {
        let (word, reason) = word(&proof, &[ended(0, BANDWIDTH), ended(0, text)]);
        assert_eq!(word, "fail", "{text}");
        assert!(reason.starts_with("status 0, but no result"), "{reason}");
    }
    assert_eq!(word(&Proof::Rows(2), &[ended(0, BANDWIDTH)]).0, "fail");
}

#[test]
fn a_server_has_to_end_well_too() {
    let halves = [ended(1, "Completion with error at server\n"), ended(0, BANDWIDTH)];
    let expected = ("fail", "Completion with error at server".to_owned());
    assert_eq!(word(&Proof::Rows(1), &halves), expected);
    let halves = [late("waiting\n"), ended(0, BANDWIDTH)];
    let (word, reason) = word(&Proof::Rows(1), &halves);
    assert_eq!(word, "fail");
    assert!(reason.starts_with("no end within 60 s: "), "{reason}");
}

#[test]
fn a_server_that_serves_for_ever_is_stopped_after_its_client() {
    let server = Ended { finish: Finish::Stopped, text: String::new() };
    let client = ended(0, "rc_bw:\n    bw  =  1.2 GB/sec\n");
    assert_eq!(word(&Proof::Quantity, &[server.clone(), client]).0, "pass");
    let client = ended(0, "rc_bw:\n    bw  =  0 bytes/sec\n");
    assert_eq!(word(&Proof::Quantity, &[server, client]).0, "fail");
}

#[test]
fn unsupported_operations_of_a_program_count_as_refused() {
    for text in [
        " Multicast: Operation not supported\n",
        "ib_write_bw: unrecognized option '--x'\n",
        "function: Events feature not available on WRITE\n",
    ] {
        assert_eq!(word(&Proof::Rows(1), &[ended(1, "waiting\n"), ended(1, text)]).0, "refused");
    }
}

#[test]
fn case_names_the_refusal_that_it_expects() {
    let halves = [ended(1, "Unable to create QP.\nFailed\n")];
    let verdict = judge(&Proof::Rows(1), Some("unable to create qp"), &halves, 60);
    assert_eq!((verdict.word(), verdict.reason.as_str()), ("refused", "Unable to create QP."));
    assert_eq!(word(&Proof::Rows(1), &halves).0, "fail");
}

#[test]
fn a_crash_or_a_hang_is_never_a_refusal() {
    let text = "a thing is not supported\n";
    let crashed = Ended { finish: Finish::Status(ExitStatus::from_raw(11)), text: text.to_owned() };
    let (word_of_crash, reason) = word(&Proof::Rows(1), &[crashed]);
    assert_eq!(word_of_crash, "fail");
    assert!(reason.starts_with("ended by signal 11: "), "{reason}");
    assert_eq!(word(&Proof::Rows(1), &[late(text)]).0, "fail");
    // A program that continued after such words, and ended with success, did not refuse.
    assert_eq!(word(&Proof::Rows(1), &[ended(0, text)]).0, "fail");
}

#[test]
fn damaged_data_is_a_failure_although_the_program_ends_well() {
    let text = format!("{BANDWIDTH}data mismatch at byte 7\n");
    let (word, reason) = word(&Proof::Rows(1), &[ended(0, &text)]);
    assert_eq!((word, reason.as_str()), ("fail", "data mismatch at byte 7"));
}

#[test]
fn the_reason_fits_into_a_table() {
    let text = format!("error: a | b\t{}\n", "x".repeat(500));
    let (_, reason) = word(&Proof::Rows(1), &[ended(1, &text)]);
    assert!(reason.starts_with("error: a b x") && reason.len() < 160, "{reason}");
}

#[test]
fn texts_and_numbers_are_proofs() {
    let texts = Proof::Texts(vec!["one".to_owned(), "two".to_owned()]);
    assert_eq!(word(&texts, &[ended(0, "two, one")]).0, "pass");
    assert_eq!(word(&texts, &[ended(0, "two")]).0, "fail");
    assert_eq!(word(&Proof::Above("batch count "), &[ended(0, "batch count 7, x")]).0, "pass");
    assert_eq!(word(&Proof::Above("batch count "), &[ended(0, "batch count 0, x")]).0, "fail");
    assert_eq!(word(&Proof::Number, &[ended(0, "1184.3\n")]).0, "pass");
    assert_eq!(word(&Proof::Number, &[ended(0, "a 1184.3\n")]).0, "fail");
    let rows = "Final:  200  4.5  5.5  5.5  1388.2  1388.2  181950  181950\n";
    assert_eq!(word(&Proof::Rows(1), &[ended(0, rows)]).0, "pass");
    let rows = "Final:  200  7.0  23.9  23.9  162.9  162.9  41701  41701  flags:0x4001 send\n";
    assert_eq!(word(&Proof::Rows(1), &[ended(0, rows)]).0, "pass");
}

#[test]
fn suites_are_counted_test_by_test() {
    let text = "\
[       OK ] rc/a.b/0 (12 ms)
[  SKIPPED ] rc/a.c/0 (0 ms)
[  FAILED  ] rc/a.d/0, where GetParam() = rc (7 ms)
[==========] 3 tests ran.
[  FAILED  ] rc/a.d/0, where GetParam() = rc
";
    let verdict = judge(&Proof::GoogleTest, None, &[ended(1, text)], 60);
    assert_eq!(verdict.score, Score { passed: 1, refused: 1, failed: 1 });
    assert_eq!(verdict.reason, "rc/a.d/0");
    let text = "\
- name:   fi_av_test -g x
  result: Pass
- name:   fi_cq_test
  result: Notrun
- name:   fi_shared_ctx -e msg
  result: Fail
";
    let verdict = judge(&Proof::Fabtests, None, &[ended(1, text)], 60);
    assert_eq!(verdict.score, Score { passed: 1, refused: 1, failed: 1 });
    assert_eq!(verdict.reason, "fi_shared_ctx -e msg");
}

#[test]
fn a_suite_that_counts_nothing_or_crashes_has_failed() {
    let nothing = judge(&Proof::GoogleTest, None, &[ended(0, "hello\n")], 60);
    assert_eq!(nothing.score, Score { failed: 1, ..Score::default() });
    let text = "test_a (x.X) ... ok\ntest_b (x.X) ... ";
    let crashed = judge(&Proof::Unittest { ranks: None }, None, &[ended(1, text)], 60);
    assert_eq!(crashed.score, Score { passed: 1, refused: 0, failed: 1 });
}

#[test]
fn a_test_that_fails_in_another_rank_counts() -> std::io::Result<()> {
    let folder = std::env::temp_dir().join(format!("fairway-judge-{}", std::process::id()));
    for (rank, result) in ["ok", "FAIL"].iter().enumerate() {
        let place = folder.join(format!("1/rank.{rank}"));
        std::fs::create_dir_all(&place)?;
        let text =
            format!("testGet (test_rma.X) ... {result}\ntestPut (test_rma.X) ... ok\nRan 2\n");
        std::fs::write(place.join("stderr"), text)?;
    }
    let ranks = Some(folder.to_string_lossy().into_owned());
    let verdict = judge(&Proof::Unittest { ranks }, None, &[ended(1, "")], 60);
    std::fs::remove_dir_all(&folder)?;
    assert_eq!(verdict.score, Score { passed: 1, refused: 0, failed: 1 });
    assert_eq!(verdict.reason, "testGet");
    Ok(())
}

const VALIDATED: &str = "\
# OSU MPI Broadcast Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)        Validation
1                      55.29              Pass
2                      54.18              Pass
4                      59.86              Pass
";

#[test]
fn osu_passes_with_enough_rows_whose_data_was_right() {
    let checked = Proof::Osu { checked: true, rows: 3, numbers: 2 };
    assert_eq!(word(&checked, &[ended(0, VALIDATED)]).0, "pass");
    assert_eq!(word(&checked, &[ended(0, &VALIDATED.replace("Pass", "passed"))]).0, "pass");
    let damaged = VALIDATED.replace("54.18              Pass", "54.18              Fail");
    assert_eq!(word(&checked, &[ended(0, &damaged)]).0, "fail");
    let damaged = format!("{VALIDATED}8   253.75   failed\n");
    assert_eq!(word(&checked, &[ended(0, &damaged)]).0, "fail");
    let unchecked = VALIDATED.replace("Pass", "");
    assert_eq!(word(&checked, &[ended(0, &unchecked)]).0, "fail");
    let plain = Proof::Osu { checked: false, rows: 3, numbers: 2 };
    assert_eq!(word(&plain, &[ended(0, &unchecked)]).0, "pass");
    let short = Proof::Osu { checked: true, rows: 4, numbers: 2 };
    assert_eq!(word(&short, &[ended(0, VALIDATED)]).0, "fail");
    assert_eq!(word(&checked, &[ended(1, VALIDATED)]).0, "fail");
}

#[test]
fn an_osu_barrier_prints_one_number() {
    let barrier = Proof::Osu { checked: false, rows: 1, numbers: 1 };
    let text = "# OSU MPI Barrier Latency Test v5.3\n# Avg Latency(us)\n            63.32\n";
    assert_eq!(word(&barrier, &[ended(0, text)]).0, "pass");
    assert_eq!(word(&barrier, &[ended(0, &text.replace("63.32", "0.00"))]).0, "fail");
    assert_eq!(word(&barrier, &[ended(0, "# Avg Latency(us)\n")]).0, "fail");
    let sized = Proof::Osu { checked: false, rows: 1, numbers: 2 };
    assert_eq!(word(&sized, &[ended(0, text)]).0, "fail");
}

#[test]
fn each_rank_has_to_show_its_connection() {
    let proof = Proof::Lines { part: "tag(rc_verbs/", least: 2 };
    let line = "ucp_worker.c:1763 UCX  INFO    ep_cfg[1]: tag(rc_verbs/fairway0:1)\n";
    assert_eq!(word(&proof, &[ended(0, &line.repeat(2))]).0, "pass");
    let own = "ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(self/memory0 rc_verbs/fairway0:1)\n";
    assert_eq!(word(&proof, &[ended(0, &format!("{line}{own}"))]).0, "fail");
}

#[test]
fn a_test_that_ucx_skips_is_refused_with_its_reason() {
    let text = "\
[ RUN      ] rc/a.b/0 <rc_v>
[     SKIP ] (no atomics)
[       OK ] rc/a.b/0 (12 ms)
[ RUN      ] rc/a.c/0 <rc_v>
[       OK ] rc/a.c/0 (12 ms)
[ RUN      ] rc/a.d/0 <rc_v>
[     SKIP ] (no atomics)
[  FAILED  ] rc/a.d/0, where GetParam() = rc (7 ms)
";
    let verdict = judge(&Proof::GoogleTest, None, &[ended(1, text)], 60);
    assert_eq!(verdict.score, Score { passed: 1, refused: 1, failed: 1 });
    assert_eq!(verdict.refusals, [("no atomics".to_owned(), 1)]);
}

#[test]
fn suites_report_why_tests_were_refused() {
    let text = "\
- name:   fi_dgram -p \"verbs\"
  result: Excluded
- name:   fi_rdm -p \"verbs\"
  result: Excluded
- name:   fi_msg -p \"verbs\"
  result: Pass
  server_stdout: |
    - name: fi_x
      result: Fail
";
    let verdict = judge(&Proof::Fabtests, None, &[ended(0, text)], 60);
    assert_eq!(verdict.score, Score { passed: 1, refused: 2, failed: 0 });
    assert_eq!(verdict.refusals.len(), 1);
    assert_eq!(verdict.refusals[0].1, 2);
    let text = "test_a (x.X) ... skipped 'no multicast'\ntest_b (x.X) ... ok\nRan 2\n";
    let verdict = judge(&Proof::Unittest { ranks: None }, None, &[ended(0, text)], 60);
    assert_eq!(verdict.score, Score { passed: 1, refused: 1, failed: 0 });
    assert_eq!(verdict.refusals, [("no multicast".to_owned(), 1)]);
}

#[test]
fn a_suite_that_reports_a_failure_of_no_test_has_failed() {
    let text = "test_b (x.X) ... ok\nRan 1\nabort in the end\n";
    let verdict = judge(&Proof::Unittest { ranks: None }, None, &[ended(1, text)], 60);
    assert_eq!(verdict.score, Score { passed: 1, refused: 0, failed: 1 });
    assert!(verdict.reason.contains("of no test: abort in the end"), "{}", verdict.reason);
}
