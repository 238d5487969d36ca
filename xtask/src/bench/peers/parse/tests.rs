use super::*;

/// Output of perftest 4.5: the end of `ib_write_bw -F -s 65536 -D 1 -m 4096 --report_gbits`.
const WRITE_BW: &str = "\
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:127:00:00:01
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      21302            0.00               11.17  \t\t   0.021302
---------------------------------------------------------------------------------------
";

/// The end of `ib_write_lat -F -s 8 -n 10000 -m 4096`.
const WRITE_LAT: &str = "\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       10000          7.73           3912.91      50.55    \t       47.74       \t\
95.47  \t\t105.15  \t\t1969.12
---------------------------------------------------------------------------------------
";

/// Output of UCX 1.13: `ucx_perftest -f -t tag_lat -s 8 -n 5000 -w 500`.
const TAG_LAT: &str = "\
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |        latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
                        5000      7.994     8.313     8.313        0.92       0.92      120291      120291
";

/// The row of `ucx_perftest -f -t tag_bw -s 65536 -n 20000 -w 500`.
const TAG_BW: &str = "                       20000      9.415    10.563    10.563     5916.66    5916.66       94667       94667\n";

/// Output of libfabric 1.17: `fi_pingpong -p tcp -e msg -S 65536 -I 2000`.
const PINGPONG: &str = "\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64k     2k      =2k      250m        0.93s    281.48     232.82       0.00
";

/// Output of the OSU micro-benchmarks 5.3.
const OSU_BW: &str = "\
# OSU MPI Bandwidth Test
# Size        Bandwidth (MB/s)
8                         1.70
32768                   945.34
65536                   879.10
131072                  855.30
";

/// Part of the output of `iperf3 -c 127.0.0.1 -t 1 -J`, version 3.12.
const IPERF3: &str = r#"{
  "end": {
    "sum_sent": {
      "start": 0,
      "end": 1.003046,
      "seconds": 1.003046,
      "bytes": 1420820480,
      "bits_per_second": 11332046426.584621,
      "retransmits": 18,
      "sender": true
    },
    "sum_received": {
      "start": 0,
      "end": 1.003205,
      "seconds": 1.003205,
      "bytes": 1420820480,
      "bits_per_second": 11330250387.508038,
      "sender": true
    }
  }
}"#;

#[test]
fn perftest_bandwidth_is_the_average_of_its_row() {
    let row = perftest_bandwidth(WRITE_BW).expect("a row");
    assert_eq!(row, Bandwidth { iterations: 21302.0, average: 11.17, mops: 0.021302 });
    let error = perftest_bandwidth(" Couldn't connect to 127.0.0.1:18515\n-----\n");
    let error = error.expect_err("no row").to_string();
    assert!(error.ends_with("Couldn't connect to 127.0.0.1:18515"), "{error}");
}

#[test]
fn perftest_latency_has_typical_average_and_tail() {
    let row = perftest_latency(WRITE_LAT).expect("a row");
    let right = Latency { iterations: 10000.0, typical: 50.55, average: 47.74, tail: 1969.12 };
    assert_eq!(row, right);
    assert!(perftest_latency(WRITE_BW).is_err());
}

#[test]
fn ucx_figures_are_median_latency_and_average_rate() {
    assert_eq!(ucx(TAG_LAT).expect("a row").0, 7.994);
    let gbps = ucx(TAG_BW).expect("a row").1;
    assert!((gbps - 49.63).abs() < 0.01, "{gbps}");
    assert!(ucx("UCX  ERROR no active messages transport\n").is_err());
}

#[test]
fn libfabric_figures_are_the_last_columns_but_one() {
    let (microseconds, gbps) = libfabric(PINGPONG).expect("a row");
    assert_eq!(microseconds, 232.82);
    assert!((gbps - 2.25184).abs() < 1e-9, "{gbps}");
    let refused = "fi_getinfo(): util/pingpong.c:1489, ret=-61 (No data available)\n";
    assert!(libfabric(refused).is_err() && libfabric("").is_err());
}

#[test]
fn osu_figure_is_that_of_the_size() {
    assert_eq!(osu(OSU_BW, 65536).expect("a row"), 879.10);
    assert_eq!(osu(OSU_BW, 8).expect("a row"), 1.70);
    assert!(osu(OSU_BW, 4).is_err());
}

#[test]
fn iperf3_figures_are_those_of_the_receiver() {
    let (gbps, bytes) = iperf3(IPERF3).expect("figures");
    assert!((gbps - 11.330).abs() < 0.001 && bytes == 1_420_820_480.0, "{gbps} {bytes}");
    let refused = r#"{ "start": {}, "error": "unable to connect to server" }"#;
    assert_eq!(iperf3(refused).expect_err("it").to_string(), "unable to connect to server");
    assert!(iperf3("iperf3: parameter error").is_err());
}

#[test]
fn reason_of_a_failure_is_its_last_line_with_text() {
    assert_eq!(last_line("one\n two | three \n----\n\n"), "two / three");
    assert_eq!(last_line(""), "nothing");
    assert_eq!(last_line(&"x".repeat(200)).chars().count(), 101);
}
