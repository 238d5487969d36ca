use std::collections::VecDeque;

use super::*;

#[test]
fn lists_agree_with_queues() {
    let mut lists = Lists::<3>::new(16);
    let mut exact: [VecDeque<u32>; 3] = Default::default();
    let mut random = 9u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let [source, list, what] = [(random >> 40) % 16, (random >> 50) % 4, (random >> 60) % 4];
        let id = SourceId(source as u32);
        let here = exact.iter().position(|queue| queue.contains(&id.0));
        assert_eq!(lists.list_of(id), here);
        if what == 0 {
            lists.send_back(id);
            if let Some(here) = here {
                exact[here].retain(|other| *other != id.0);
                exact[here].push_back(id.0);
            }
        } else {
            let list = (list < 3).then_some(list as usize);
            lists.place(id, list);
            if here != list {
                exact.iter_mut().for_each(|queue| queue.retain(|other| *other != id.0));
                list.into_iter().for_each(|list| exact[list].push_back(id.0));
            }
        }
        for (list, queue) in exact.iter().enumerate() {
            assert_eq!(lists.iter(list).map(|source| source.0).collect::<VecDeque<_>>(), *queue);
            assert_eq!(lists.first(list).map(|source| source.0), queue.front().copied());
        }
    }
}
