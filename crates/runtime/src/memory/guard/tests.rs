use std::os::fd::FromRawFd;
use std::process::Command;

use super::*;
use crate::memory::Memory;
use fairway_wire::AtomicOperator;

const PAGE: usize = 4096;

/// Returns two pages of a file that ends after the first.
fn half_there() -> Memory {
    // SAFETY: the name is a C string, and the file that is made is the test's alone.
    let file = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"half".as_ptr(), 0)) };
    file.set_len(2 * PAGE as u64).unwrap();
    let memory = Memory::map_file(&file, true).unwrap();
    file.set_len(PAGE as u64).unwrap();
    memory
}

#[test]
fn access_to_missing_memory_fails() {
    let memory = half_there();
    for (offset, length) in [(PAGE, 8), (PAGE - 1, 2), (PAGE - 100, 200), (10, 5000), (PAGE, PAGE)]
    {
        let mut bytes = vec![0; length];
        assert_eq!(memory.bytes(offset, length).read(&mut bytes), Err(Gone), "{offset} {length}");
        assert_eq!(memory.bytes(offset, length).write(&bytes), Err(Gone), "{offset} {length}");
        assert_eq!(memory.bytes(offset, length).equals(&bytes), Err(Gone), "{offset} {length}");
    }
    for width in [1, 2, 4, 8] {
        let mut bytes = [0; 8];
        assert_eq!(memory.bytes(PAGE + 8, width).read(&mut bytes[..width]), Err(Gone));
        assert_eq!(memory.bytes(PAGE + 8, width).write(&bytes[..width]), Err(Gone));
    }
    for width in [4, 8] {
        for operator in AtomicOperator::ALL {
            assert_eq!(memory.bytes(PAGE + 8, width).change(operator, 1, 0), Err(Gone));
        }
    }
    assert_eq!(memory.bytes(0, 5).write(b"there"), Ok(()));
    assert_eq!(memory.bytes(0, 5).equals(b"there"), Ok(true));
}

#[test]
fn memory_that_can_only_be_read_cannot_be_written() {
    let memory = Memory::zeroed(PAGE).unwrap();
    // SAFETY: a page of the test's own.
    unsafe { libc::mprotect(memory.start().as_ptr().cast(), PAGE, libc::PROT_READ) };
    assert_eq!(memory.bytes(0, 100).read(&mut [0; 100]), Ok(()));
    assert_eq!(memory.bytes(0, 100).write(&[0; 100]), Err(Gone));
    assert_eq!(memory.bytes(8, 8).change(AtomicOperator::Add, 1, 0), Err(Gone));
}

/// Runs this test again in a child process, which `body` is expected to end.
fn ending(name: &str, body: impl FnOnce()) -> Option<std::process::ExitStatus> {
    const CHILD: &str = "FAIRWAY_TEST_GUARD";
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        body();
        // The handler of a test returns only if there is a bug.
        std::process::exit(1);
    }
    let name_of_test = format!("memory::guard::tests::{name}");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &name_of_test, "--nocapture"]).env(CHILD, name);
    Some(child.output().unwrap().status)
}

/// Reads from an unmapped address.
fn fault() {
    // SAFETY: none. That is the purpose: the process ends, or its handler does something about it.
    unsafe { std::ptr::null::<u8>().wrapping_add(16).read_volatile() };
}

#[test]
fn other_faults_end_the_process_as_before() {
    use std::os::unix::process::ExitStatusExt;
    let status = ending("other_faults_end_the_process_as_before", || {
        // SAFETY: a zeroed action is the default one; the runtime of Rust has its own handler.
        unsafe { libc::sigaction(libc::SIGSEGV, &std::mem::zeroed(), ptr::null_mut()) };
        access_to_missing_memory_fails();
        fault();
    });
    assert_eq!(status.unwrap().signal(), Some(libc::SIGSEGV));
}

#[test]
fn a_signal_that_was_sent_ends_the_process_as_before() {
    use std::os::unix::process::ExitStatusExt;
    let status = ending("a_signal_that_was_sent_ends_the_process_as_before", || {
        // SAFETY: as above.
        unsafe { libc::sigaction(libc::SIGBUS, &std::mem::zeroed(), ptr::null_mut()) };
        access_to_missing_memory_fails();
        // SAFETY: has no conditions.
        unsafe { libc::raise(libc::SIGBUS) };
    });
    assert_eq!(status.unwrap().signal(), Some(libc::SIGBUS));
}

extern "C" fn informed(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's, handed on.
    let right = unsafe { (*info).si_addr() as usize == 16 && !context.is_null() };
    let code = if signal == libc::SIGSEGV && right { 23 } else { 1 };
    // SAFETY: has no conditions.
    unsafe { libc::_exit(code) };
}

#[test]
fn other_faults_reach_the_handler_that_the_program_had() {
    let status = ending("other_faults_reach_the_handler_that_the_program_had", || {
        // SAFETY: the handler has the type that SA_SIGINFO demands.
        unsafe {
            let mut action: sigaction = std::mem::zeroed();
            action.sa_sigaction = informed as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
        }
        access_to_missing_memory_fails();
        fault();
    });
    assert_eq!(status.unwrap().code(), Some(23));
}
