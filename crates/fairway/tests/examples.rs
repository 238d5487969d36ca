//! Runs every example. Both ends of each are in one process, over the loopback interface, and each
//! compares the bytes itself.

#[path = "../examples/counter.rs"]
mod counter;
#[path = "../examples/file_copy.rs"]
mod file_copy;
#[path = "../examples/mailbox_server.rs"]
mod mailbox_server;
#[path = "../examples/policy.rs"]
mod policy;
#[path = "../examples/put_get.rs"]
mod put_get;

#[cfg(feature = "tokio")]
#[path = "../examples/async_tokio.rs"]
mod async_tokio;

#[test]
fn put_get_moves_bytes_and_reports_a_refusal() {
    put_get::main().expect("the example runs");
}

#[test]
fn mailbox_server_receives_every_request_in_order() {
    mailbox_server::main().expect("the example runs");
}

#[test]
fn counter_counts_every_step_once() {
    counter::main().expect("the example runs");
}

#[test]
fn file_copy_has_the_bytes_of_its_source() {
    file_copy::main().expect("the example runs");
}

#[test]
fn policy_moves_every_byte_under_each_policy() {
    policy::main().expect("the example runs");
}

#[cfg(feature = "tokio")]
#[test]
fn async_tokio_writes_from_many_tasks() {
    async_tokio::main().expect("the example runs");
}
