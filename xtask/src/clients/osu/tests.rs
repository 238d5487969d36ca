use super::*;

/// Help text of a message program of release 5.3.
const OLD_MESSAGES: &str = "\
Usage: osu_latency [options]

options:
  -x ITER       number of warmup iterations to skip before timing(default 100)
  -i ITER       number of iterations for timing (default 10000)
  -h            print this help message
";

/// Help text of a collective program of release 5.3.
const OLD_COLLECTIVE: &str = "\
Usage: osu_bcast [options]
options:
  -m [MIN:]MAX  set the minimum and/or the maximum message size to MIN and/or MAX
                bytes respectively. Examples:
                -m 128      // min = default, max = 128
  -M SIZE       set per process maximum memory consumption to SIZE bytes
  -i ITER       set iterations per message size to ITER (default 1000 for small
  -x ITER       set number of warmup iterations to skip before timing (default 200)
";

/// Help text of a program with threads, of release 7.4.
const NEW_THREADS: &str = "\
  -t, --num-test-calls      Non-blocking collectives-> CALLS - set the number of MPI_Test() calls
                            -t 4        // receiver t/p = 4 and sender t/p = 1
  -c, --validation          [log:<dir>]Enable validation. Disabled by default.
";

/// Help text of an atomic program of release 7.4.
const NEW_ATOMIC: &str = "\
Usage: osu_cas_latency [options]
Options:
  -m, --message-size        [MIN:]MAX - set the minimum and/or the maximum message size to MIN and/or MAX
                            -m 2:       // min = 2, max = default
  -x, --warmup              ITER - set number of warmup
  -i, --iterations          ITER - number of iterations for timing (default 10000)
  -c, --validation          [log:<dir>]Enable validation. Disabled by default.
  -T, --type                [all,mpi_char,mpi_int,mpi_float] - Set MPI_TYPE . Default:MPI_CHAR.
";

#[test]
fn a_program_gets_only_options_that_its_help_lists() {
    assert_eq!(arguments("osu_latency", OLD_MESSAGES), "-i 20 -x 2");
    assert_eq!(arguments("osu_bcast", OLD_COLLECTIVE), "-m 65536 -i 20 -x 2");
    assert_eq!(arguments("osu_bcast", NEW_ATOMIC), "-m 65536 -i 20 -x 2 -c");
    assert_eq!(arguments("osu_latency_mt", NEW_THREADS), "-c -t 2:2");
    assert_eq!(arguments("osu_hello", "This is a test with 1 processes\n"), "");
    assert_eq!(arguments("osu_init", "osu_init: unrecognized option '-h'\n"), "");
}

#[test]
fn programs_that_compute_do_so_with_integers() {
    assert_eq!(arguments("osu_ireduce_scatter", NEW_ATOMIC), "-m 65536 -i 20 -x 2 -c -T mpi_int");
    assert_eq!(arguments("osu_cas_latency", NEW_ATOMIC), "-m 65536 -i 20 -x 2 -c -T mpi_int");
}

#[test]
fn an_example_is_no_option() {
    assert!(!knows("                -m 128      // min = default, max = 128\n", "-m"));
    assert!(!knows("  -M SIZE  set memory\n", "-m"));
    assert!(!knows("  -max SIZE  set memory\n", "-m"));
    assert!(knows("  -w=<window>  Number of messages\n", "-w"));
}

#[test]
fn data_has_to_be_compared_where_a_program_can() {
    let checked = |name, help| match proof(name, help) {
        Proof::Osu { checked, rows, .. } => Some((checked, rows)),
        _ => None,
    };
    assert_eq!(checked("osu_bcast", NEW_ATOMIC), Some((true, 3)));
    assert_eq!(checked("osu_cas_latency", NEW_ATOMIC), Some((true, 1)));
    assert_eq!(checked("osu_bcast", OLD_COLLECTIVE), Some((false, 3)));
    assert_eq!(checked("osu_barrier", OLD_COLLECTIVE), Some((false, 1)));
    assert_eq!(checked("osu_hello", ""), None);
    assert_eq!(checked("osu_init", ""), None);
}

#[test]
fn a_ring_of_neighbours_has_three_ranks() {
    assert_eq!(ranks("osu_ineighbor_alltoallw"), 3);
    assert_eq!(ranks("osu_ialltoallw"), 2);
}
