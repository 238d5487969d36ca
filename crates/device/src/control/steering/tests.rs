use super::Steering;

#[test]
fn flows_of_consecutive_numbers_are_distributed_evenly() {
    for threads in [1, 2, 4, 64] {
        let steering = Steering::new(threads);
        let mut flows = std::vec![0; threads as usize];
        (0..256).for_each(|flow| flows[steering.thread_of(flow) as usize] += 1);
        assert!(flows.iter().all(|flows| *flows == 256 / threads), "{threads}: {flows:?}");
    }
}

#[test]
fn flow_keeps_its_thread_and_no_threads_means_one() {
    let steering = Steering::new(3);
    assert_eq!([0, 1, 2, 3, 7].map(|flow| steering.thread_of(flow)), [0, 1, 2, 0, 1]);
    assert_eq!(Steering::new(0), Steering::default());
    assert_eq!(Steering::default().thread_of(9), 0);
}
