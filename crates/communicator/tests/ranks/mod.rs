//! Ranks as threads of one process, over loopback.

use fairway_communicator::{Communicator, Costs, Error, Options, TcpRendezvous};
use std::net::TcpListener;
use std::time::Duration;

/// Options of ranks on this host, with costs that no test measures.
pub fn options() -> Options {
    let mut options = Options::default();
    options.context = options.context.bind([127, 0, 0, 1].into());
    options.timeout = Duration::from_secs(60);
    options.costs = Some(Costs::default());
    options
}

/// An address at which nothing listens.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

/// Runs `work` at each rank of a group, and returns the results in the order of the ranks.
pub fn group<R: Send>(
    ranks: u32,
    options: &Options,
    work: impl Fn(&Communicator) -> R + Sync,
) -> Vec<R> {
    group_with(ranks, |_| options.clone(), work)
}

/// As [`group`], with options for each rank.
pub fn group_with<R: Send>(
    ranks: u32,
    options: impl Fn(u32) -> Options + Sync,
    work: impl Fn(&Communicator) -> R + Sync,
) -> Vec<R> {
    let address = free_address();
    let join = |rank| -> Result<Communicator, Error> {
        let mut rendezvous = TcpRendezvous::new(&address, "test", rank, ranks);
        Communicator::new(rank, ranks, &mut rendezvous, options(rank))
    };
    std::thread::scope(|scope| {
        let run = |rank| {
            let (join, work) = (&join, &work);
            scope.spawn(move || work(&join(rank).expect("the ranks find each other")))
        };
        let threads: Vec<_> = (0..ranks).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}
