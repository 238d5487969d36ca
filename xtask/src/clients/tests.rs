use super::*;

#[test]
fn perftest_has_129_commands() {
    assert_eq!(perftest::client().cases.len(), 129);
}

#[test]
fn ucx_perftest_has_196_commands() {
    let cases = ucx::client().cases;
    let own = cases.iter().filter(|case| case.name.starts_with("-t "));
    assert_eq!(own.count(), 196);
}
