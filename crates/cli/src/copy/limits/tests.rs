use super::*;

fn limits(files: u32, bytes: u64, share: u8) -> Limits {
    Limits { files, bytes, keep_free: KeepFree::Percent(5), share: Portion::percent(share) }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn files_and_bytes_are_limited_by_themselves() {
    let limits = limits(3, 1000, 100);
    let taken = Arc::new(Taken::default());
    let admit = |size| limits.admit(&taken, ip("192.0.2.1"), size);
    let first = admit(900).expect("a place");
    let bytes = admit(101).expect_err("too large").to_string();
    assert!(bytes.contains("101") && bytes.contains("--max-bytes"), "{bytes}");
    let (_second, third) = (admit(100).expect("a place"), admit(0).expect("a place"));
    let files = admit(0).expect_err("too many").to_string();
    assert!(files.contains("(3)") && files.contains("--max-files"), "{files}");
    drop(third);
    assert!(admit(u64::MAX).expect_err("too large").to_string().contains("--max-bytes"));
    drop(first);
    admit(900).expect("what was given back");
}

#[test]
fn one_address_leaves_a_quarter_to_others() {
    let limits = limits(8, 1000, 75);
    let taken = Arc::new(Taken::default());
    let admit = |address: &str, size| limits.admit(&taken, ip(address), size);
    let refused = admit("2001:db8::1", 751).expect_err("no exception").to_string();
    assert!(refused.contains("751") && refused.contains("--max-bytes"), "{refused}");
    let places: Vec<_> = (0..6).map(|_| admit("2001:db8::1", 1).expect("a place")).collect();
    for same in ["2001:db8::1", "2001:db8::ffff:0:0:2"] {
        let refused = admit(same, 1).expect_err("too many").to_string();
        assert!(refused.contains("6 files") && refused.contains("address"), "{refused}");
    }
    let first = admit("2001:db8:0:1::1", 1).expect("another address of the network");
    let refused = admit("2001:db8:0:2::1", 1).expect_err("a third one").to_string();
    assert!(refused.contains("network"), "{refused}");
    let other = admit("2001:db8:1::1", 700).expect("another network has the rest");
    drop((places, first, other));
    assert!(taken.state().accounts.is_empty(), "nothing is kept of those who have gone");
    let mapped = admit("::ffff:192.0.2.1", 750).expect("three quarters");
    let refused = admit("192.0.2.1", 1).expect_err("the same address").to_string();
    assert!(refused.contains("one address"), "{refused}");
    drop(mapped);
}

/// As many files of `size` bytes as all addresses of a network may have.
fn all_of_a_network(limits: Limits, taken: &Arc<Taken>, size: u64) -> Vec<Place> {
    let from = |host| limits.admit(taken, IpAddr::from([192, 0, 2, host]), size).ok();
    (0..=255).flat_map(|host| std::iter::from_fn(move || from(host))).collect()
}

#[test]
fn many_addresses_that_use_their_whole_share_leave_some() {
    let few = limits(64, u64::MAX, 75);
    let taken = Arc::new(Taken::default());
    let places = all_of_a_network(few, &taken, 1);
    assert_eq!(places.len(), 56, "seven eighths");
    few.admit(&taken, ip("198.51.100.1"), 1).expect("the rest is for others");

    let small = limits(1 << 20, 800, 75);
    let taken = Arc::new(Taken::default());
    let places = all_of_a_network(small, &taken, 10);
    assert_eq!(places.len(), 70, "seven eighths");
    small.admit(&taken, ip("198.51.100.1"), 75).expect("three quarters of what is left");
}

#[test]
fn bytes_stored_by_an_address_count_for_a_day() {
    let limits = limits(64, u64::MAX, 75);
    let taken = Arc::new(Taken::default());
    let place = |address: &str, size| limits.admit(&taken, ip(address), size).expect("a place");
    let room = |bytes, files| Room { files: Some(files), bytes };
    assert!(place("192.0.2.1", 700).refusal(room(1000, 100)).is_none(), "three quarters");
    assert!(place("192.0.2.1", 751).refusal(room(1000, 100)).is_some(), "more");
    let mut numbers = 0..;
    let mut store = |place: Place| {
        place.stored(FileId::new(0, numbers.next().expect("endless")), None);
    };
    store(place("192.0.2.1", 700));
    let more = place("192.0.2.1", 51).refusal(room(300, 100)).expect("751 of 1000").to_string();
    assert!(more.contains("700") && more.contains("--address-share"), "{more}");
    assert!(place("192.0.2.1", 50).refusal(room(300, 100)).is_none(), "750 of 1000");
    assert!(place("198.51.100.1", 225).refusal(room(300, 100)).is_none(), "another address");
    for _ in 0..3 {
        store(place("198.51.100.1", 0));
    }
    assert!(place("198.51.100.1", 0).refusal(room(300, 1)).is_some(), "four of four files");
    // One day passes.
    for account in taken.state().accounts.values_mut() {
        account.since = account.since.and_then(|since| since.checked_sub(STORED_FOR));
    }
    let refusal = place("192.0.2.1", 225).refusal(room(300, 100));
    assert!(refusal.is_none(), "the stored file is no longer counted");
}

/// Regression test: a file counted again each time it was replaced, so that an address that
/// replaces one every hour had no room in the end.
#[test]
fn replaced_file_no_longer_counts() {
    let limits = limits(64, u64::MAX, 75);
    let taken = Arc::new(Taken::default());
    let place = |address: &str, size| limits.admit(&taken, ip(address), size).expect("a place");
    let file = |number| FileId::new(7, number);
    let stored = |address: &str| {
        let [client, network] = holders(ip(address));
        let state = taken.state();
        let of = |holder| {
            let account = state.accounts.get(holder).copied().unwrap_or_default();
            (account.stored.files, account.stored.bytes)
        };
        assert_eq!(of(&client), of(&network), "it has its network to itself");
        of(&client)
    };
    place("192.0.2.1", 500).stored(file(0), None);
    for number in 1..10 {
        let place = place("192.0.2.1", 400 + number);
        place.stored(file(number), Some(file(number - 1)));
    }
    assert_eq!(stored("192.0.2.1"), (1, 409));
    place("192.0.2.1", 10).stored(file(20), Some(file(99)));
    assert_eq!(stored("192.0.2.1"), (2, 419), "the server has not stored what it replaced");
    place("198.51.100.1", 30).stored(file(21), Some(file(9)));
    assert_eq!((stored("192.0.2.1"), stored("198.51.100.1")), ((1, 10), (1, 30)));
    place("198.51.100.1", 40).stored(file(22), Some(file(20)));
    assert!(!taken.state().accounts.contains_key(&holders(ip("192.0.2.1"))[0]), "nothing left");
    // One day passes, after which files stored before do not count.
    for account in taken.state().accounts.values_mut() {
        account.since = account.since.and_then(|since| since.checked_sub(STORED_FOR));
    }
    place("198.51.100.1", 50).stored(file(23), Some(file(22)));
    assert_eq!(stored("198.51.100.1"), (1, 50));
}

#[test]
fn accounts_of_the_least_are_forgotten_when_there_are_too_many() {
    let limits = limits(8, u64::MAX, 75);
    let taken = Arc::new(Taken::default());
    let store = |address: u32, size| {
        let place = limits.admit(&taken, IpAddr::V4(address.into()), size).expect("a place");
        place.stored(FileId::new(0, address.into()), None);
    };
    store(0x0a00_0001, 1 << 30);
    (0..REMEMBERED_MAX as u32 + 10).for_each(|host| store(0x0b00_0000 + (host << 8), 1));
    let state = taken.state();
    assert!(state.accounts.len() <= REMEMBERED_MAX, "{}", state.accounts.len());
    let [client, _] = holders(ip("10.0.0.1"));
    assert_eq!(state.accounts[&client].stored.bytes, 1 << 30);
}

#[test]
fn a_part_of_the_disk_stays_free() {
    assert_eq!(KeepFree::parse("5%"), Ok(KeepFree::Percent(5)));
    assert_eq!(KeepFree::parse("2K"), Ok(KeepFree::Bytes(2048)));
    for wrong in ["101%", "-1%", "%", "x"] {
        assert!(KeepFree::parse(wrong).is_err(), "{wrong}");
    }
    assert_eq!(Portion::parse("75%"), Ok(Portion::percent(75)));
    for wrong in ["0%", "101%", "75", "%", "x"] {
        assert!(Portion::parse(wrong).is_err(), "{wrong}");
    }
    let directory = OwnedFd::from(std::fs::File::open("/").expect("a directory"));
    let Space { total, free, .. } = space(&directory).expect("known");
    assert!(free <= total && total > 0);
    assert!(KeepFree::Bytes(0).allows(&directory, free / 2).is_ok());
    let refused = KeepFree::Percent(100).allows(&directory, 1).expect_err("not a byte").to_string();
    assert!(refused.contains("--keep-free"), "{refused}");
}
