use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[test]
fn entries_are_found_until_they_are_removed() {
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

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u32),
    Remove(u64),
    Change(u64),
}

fn step() -> impl Strategy<Value = Step> {
    // The keys are few, so that they collide; some of them are far apart.
    let key = prop_oneof![0u64..24, (0u64..24).prop_map(|key| key << 40)];
    prop_oneof![
        (key.clone(), any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        key.clone().prop_map(Step::Remove),
        key.prop_map(Step::Change),
    ]
}

proptest! {
    #[test]
    fn map_agrees_with_a_btree_map(
        capacity in 1usize..20,
        steps in prop::collection::vec(step(), 0..400),
    ) {
        let mut map = FixedMap::new(capacity);
        let mut exact: BTreeMap<u64, u32> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(key, _) if exact.len() == capacity && !exact.contains_key(&key) => {
                    prop_assert_eq!(map.insert(key, 0), Err(Full));
                }
                Step::Insert(key, value) => {
                    prop_assert_eq!(map.insert(key, value), Ok(exact.insert(key, value)));
                }
                Step::Remove(key) => prop_assert_eq!(map.remove(key), exact.remove(&key)),
                Step::Change(key) => {
                    let [ours, theirs] = [map.get_mut(key), exact.get_mut(&key)];
                    prop_assert_eq!(ours.is_some(), theirs.is_some());
                    ours.into_iter().chain(theirs).for_each(|value| *value ^= 1);
                }
            }
            prop_assert_eq!(map.len(), exact.len());
            prop_assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), exact.clone());
            prop_assert!(exact.iter().all(|(key, value)| map.get(*key) == Some(*value)));
        }
    }
}
