//! Threads that share a provider.

use crate::node::{DOMAIN, Memory, Pair, content};
use fairway_roce::{
    MemoryRequest, QueuePairConfig, Reliability, RemoteAddress, Status, Transport, Work,
};
use fairway_ub::{LocalRange, Rights};

/// The threads create, use and remove everything, without effect on each other.
#[test]
fn threads_make_and_remove_what_they_use_beside_each_other() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                for round in 0..40_u64 {
                    let memory = Memory::new(8192);
                    let bytes = content(thread << 32 | round, 4096);
                    memory.write(0, &bytes);
                    let request = MemoryRequest {
                        domain: DOMAIN,
                        address: 0,
                        length: 4096,
                        rights: Rights::ALL,
                    };
                    let from = here.provider.register(memory.foreign(4096), &request).unwrap();
                    let target = Memory::new(4096);
                    let into = there.provider.register(target.foreign(4096), &request).unwrap();
                    let queue = here.provider.create_completion_queue(8).unwrap();
                    let config = QueuePairConfig {
                        send_queue: queue,
                        receive_queue: queue,
                        ..here.config(Transport::Rc)
                    };
                    let mine = here.provider.create_queue_pair(&config).unwrap();
                    let theirs = there.queue_pair(Transport::Rc);
                    let reliability = Reliability::default();
                    here.connect(mine, here.peer(there.provider.gids()[0], theirs), reliability);
                    there.connect(theirs, there.peer(here.provider.gids()[0], mine), reliability);
                    let remote = RemoteAddress { address: 0, r_key: into.r_key };
                    let local = LocalRange { segment: from.segment, offset: 0, length: 4096 };
                    let write = Work::Write { remote, immediate: None };
                    for id in 0..4 {
                        here.post(mine, id, write, local.into());
                    }
                    for id in 0..4 {
                        let done = here.next(queue);
                        assert_eq!((done.id, done.status), (id, Status::Success));
                    }
                    assert_eq!(target.read(0, 4096), bytes);
                    // Repeats the operations, and removes everything while they are under way.
                    for id in 0..4 {
                        here.post(mine, id, write, local.into());
                    }
                    match round % 3 {
                        0 => here.provider.deregister(from.segment).unwrap(),
                        1 => there.provider.deregister(into.segment).unwrap(),
                        _ => {}
                    }
                    here.provider.destroy_queue_pair(mine).unwrap();
                    there.provider.destroy_queue_pair(theirs).unwrap();
                    here.provider.destroy_completion_queue(queue).unwrap();
                    if round % 3 != 0 {
                        here.provider.deregister(from.segment).unwrap();
                    }
                    if round % 3 != 1 {
                        there.provider.deregister(into.segment).unwrap();
                    }
                    target.write(0, &[7; 4096]);
                    std::thread::yield_now();
                    assert_eq!(target.read(0, 4096), [7; 4096]);
                }
            });
        }
    });
}
