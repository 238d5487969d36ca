use super::*;

const TEXT: &str = "\
test_plain (tests.test_x.X.test_plain) ... ok
test_reported (tests.test_x.X.test_reported)
What it is about. ... ok
test_talks (tests.test_x.X.test_talks) ... it says something
ok
test_skips (tests.test_x.X.test_skips) ... skipped 'there is none'
test_fails (tests.test_x.X.test_fails) ... FAIL
test_breaks (tests.test_x.X.test_breaks)
About this. ... ERROR

======================================================================
FAIL: test_fails (tests.test_x.X.test_fails)
----------------------------------------------------------------------
Traceback (most recent call last):
pyverbs.pyverbs_error.PyverbsRDMAError: the kernel said ERROR
----------------------------------------------------------------------
Ran 6 tests in 1.000s
";

#[test]
fn results_are_counted_wherever_they_stand() {
    let mut failures = Vec::new();
    let counts = count(TEXT, &mut failures);
    assert_eq!(counts, Counts { passed: 3, skipped: 1, failed: 2, crashed: false });
    let names =
        ["test_fails (tests.test_x.X.test_fails)", "test_breaks (tests.test_x.X.test_breaks)"];
    assert_eq!(failures, names);
}

#[test]
fn died_process_is_reported() {
    let (begun, _) = TEXT.split_once("test_fails").expect("it is there");
    let counts = count(begun, &mut Vec::new());
    assert_eq!(counts, Counts { passed: 3, skipped: 1, failed: 0, crashed: true });
}
