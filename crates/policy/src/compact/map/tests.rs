use super::*;

#[test]
fn what_is_put_in_is_found_until_it_is_taken_out() {
    let mut map = FixedMap::new(3);
    assert_eq!(map.insert(7, 'a'), Ok(None));
    assert_eq!(map.insert(7, 'b'), Ok(Some('a')));
    *map.get_mut(7).expect("there") = 'c';
    assert_eq!((map.get(7), map.get(8), map.len()), (Some('c'), None, 1));
    assert_eq!((map.remove(7), map.remove(7)), (Some('c'), None));
    assert!(map.is_empty());
}

#[test]
fn a_full_map_takes_no_new_key() {
    let mut map = FixedMap::new(2);
    assert_eq!((map.insert(1, 1), map.insert(2, 2)), (Ok(None), Ok(None)));
    assert_eq!(map.insert(3, 3), Err(Full));
    assert_eq!(map.insert(2, 4), Ok(Some(2)), "one that is there may change");
    assert_eq!((map.get(1), map.get(2), map.get(3)), (Some(1), Some(4), None));
    map.remove(1);
    assert_eq!(map.insert(3, 3), Ok(None));
    map.clear();
    assert_eq!((map.len(), map.get(3)), (0, None));
}

#[test]
fn there_is_always_an_empty_slot() {
    for capacity in 0..200 {
        let map: FixedMap<u8> = FixedMap::new(capacity);
        assert!(map.slots.len() > capacity);
        assert!(map.state_bytes() <= 4 * (capacity + 1) * size_of::<Option<(u64, u8)>>());
    }
}
