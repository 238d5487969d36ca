//! Starts of threads.

use std::io;
use std::sync::{Arc, Barrier};
use std::thread::{Builder, JoinHandle};

/// Starts a thread, and returns when it runs. It has allocated memory by then.
///
/// Open MPI and UCX replace the first instructions of `munmap` and the like, and no other thread
/// may execute these meanwhile. They do so in the thread that has just opened a device, and a
/// thread that begins may call `munmap` for its first memory. One that runs hardly ever does.
///
/// # Errors
/// The system starts no more threads.
pub fn start_thread(
    name: impl Into<String>,
    life: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let running = Arc::new(Barrier::new(2));
    let begun = running.clone();
    let thread = Builder::new().name(name.into()).spawn(move || {
        begun.wait();
        drop(begun);
        life();
    })?;
    running.wait();
    Ok(thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_has_its_name_and_runs() {
        let name = Arc::new(std::sync::Mutex::new(None));
        let seen = name.clone();
        let thread = start_thread("a name", move || {
            let own = std::thread::current().name().map(str::to_owned);
            *seen.lock().unwrap() = own;
        });
        thread.unwrap().join().unwrap();
        assert_eq!(name.lock().unwrap().as_deref(), Some("a name"));
    }
}
