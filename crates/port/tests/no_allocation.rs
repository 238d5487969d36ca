//! Sending and receiving allocate nothing after the first rounds, with and without impairments.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fairway_port::{
    Address, Datapath, Impaired, RawSlice, ReceiveBuffer, Train, UdpConfig, UdpPort,
};

struct Counting;

thread_local! {
    /// Counted per thread, because the test harness has other threads.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; counting touches no memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const HEADER: usize = 24;
const PAYLOAD: usize = 1000;
const PACKETS: usize = 30;

/// Sends one train through the loopback interface.
fn round(
    now_ns: u64,
    path: &mut dyn Datapath,
    to: &Address,
    right: &mut UdpPort,
    (train, buffer): (&mut Train, &mut ReceiveBuffer),
) {
    let payload = [7u8; PAYLOAD];
    train.clear();
    for number in 0..PACKETS {
        // SAFETY: the payload outlives the send below.
        let payload = unsafe { RawSlice::new(payload.as_ptr(), PAYLOAD) };
        train.push(&[number as u8; HEADER], payload).expect("fits");
    }
    path.transmit(now_ns, 0, 0, to, train).expect("send");
    path.release_due(now_ns).expect("release");
    while right.receive(0, buffer).expect("receive").is_some() {}
}

#[test]
fn warm_datapath_allocates_nothing() {
    let config = UdpConfig {
        bind: "127.0.0.1".parse().expect("address"),
        first_port: 0,
        sockets: 1,
        buffer_bytes: 1 << 20,
    };
    let bind = || UdpPort::bind(&config).expect("bind");
    let spec = "loss=1%,reorder=32,dup=1%,delay=50us,jitter=5us,rate=10G".parse().expect("spec");
    let clean: Box<dyn Datapath> = Box::new(bind());
    let impaired: Box<dyn Datapath> = Box::new(Impaired::new(bind(), &spec, 5, 0));
    for mut path in [clean, impaired] {
        let mut right = bind();
        let to: Address = right.local_addrs()[0].into();
        let (mut train, mut buffer) = (right.new_train(), ReceiveBuffer::new());
        let mut rounds = |from: u64, until: u64| {
            for number in from..until {
                let parts = (&mut train, &mut buffer);
                round(number * 30_000, path.as_mut(), &to, &mut right, parts);
            }
        };
        rounds(0, 2000);
        let before = ALLOCATIONS.with(Cell::get);
        rounds(2000, 2500);
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    }
}
