use proptest::prelude::*;

use super::{Parameters, Ports, Versions};
use crate::strategies;

proptest! {
    #[test]
    fn agreed_parameters_do_not_depend_on_the_initiator(a in strategies::parameters(), b in strategies::parameters()) {
        let agreed = a.agree(&b);
        prop_assert_eq!(agreed, b.agree(&a));
        prop_assert_eq!(agreed.fault(), None);
        prop_assert_eq!(agreed.agree(&a), agreed);
    }
}

#[test]
fn versions_agree_on_the_newest_in_common() {
    let range = |min, max| Versions::new(min, max).expect("a legal range");
    assert_eq!(range(1, 3).agree(range(2, 5)), Some(3));
    assert_eq!(range(4, 4).agree(range(1, 9)), Some(4));
    assert_eq!(range(1, 2).agree(range(3, 4)), None);
    assert_eq!(Versions::new(0, 3), None);
    assert_eq!(Versions::new(3, 2), None);
}

#[test]
fn ports_are_one_to_sixteen_and_not_zero() {
    assert_eq!(Ports::new(&[]), None);
    assert_eq!(Ports::new(&[1; 17]), None);
    assert_eq!(Ports::new(&[4000, 0]), None);
    let sixteen: [u16; 16] = core::array::from_fn(|i| 4000 + i as u16);
    assert_eq!(Ports::new(&sixteen).expect("legal").as_slice(), sixteen);
}

#[test]
fn each_fault_is_named() {
    let good = Parameters {
        mtu_bytes: 1400,
        paths: 16,
        window_packets: 4096,
        message_slots: 64,
        read_slots: 0,
        keep_alive_ms: 0,
        channels: 1,
        capabilities: 0,
    };
    assert_eq!(good.fault(), None);
    assert_eq!(Parameters { mtu_bytes: 0, ..good }.fault(), Some("mtu"));
    assert_eq!(Parameters { paths: 0, ..good }.fault(), Some("paths"));
    assert_eq!(Parameters { paths: 257, ..good }.fault(), Some("paths"));
    assert_eq!(Parameters { window_packets: 0, ..good }.fault(), Some("window"));
    assert_eq!(Parameters { message_slots: 257, ..good }.fault(), Some("message slots"));
    assert_eq!(Parameters { read_slots: 257, ..good }.fault(), Some("read slots"));
}

#[test]
fn keep_alive_is_the_shorter_that_is_on() {
    let with = |keep_alive_ms| Parameters {
        mtu_bytes: 1,
        paths: 1,
        window_packets: 1,
        message_slots: 0,
        read_slots: 0,
        keep_alive_ms,
        channels: 1,
        capabilities: 0,
    };
    assert_eq!(with(0).agree(&with(50)).keep_alive_ms, 50);
    assert_eq!(with(20).agree(&with(50)).keep_alive_ms, 20);
    assert_eq!(with(0).agree(&with(0)).keep_alive_ms, 0);
}
