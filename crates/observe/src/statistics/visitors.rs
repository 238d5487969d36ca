//! A thread that accepts connections, one after the other, until it is stopped.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause after the system could not accept a connection.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Visitors {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Visitors {
    /// Starts the thread: `accept` waits for the next connection, `serve` answers it.
    pub(super) fn start<V>(
        name: &str,
        mut accept: impl FnMut() -> io::Result<V> + Send + 'static,
        mut serve: impl FnMut(V) + Send + 'static,
    ) -> io::Result<Visitors> {
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = stopping.clone();
        let thread = fairway_runtime::start_thread(name, move || {
            loop {
                let visitor = accept();
                if stop.load(Ordering::Acquire) {
                    return;
                }
                match visitor {
                    Ok(visitor) => serve(visitor),
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        })?;
        Ok(Visitors { stopping, thread: Some(thread) })
    }

    /// Stops the thread, which a last connection, made by `visit`, wakes. If that fails, the thread
    /// ends with the process.
    pub(super) fn end<V>(&mut self, visit: impl FnOnce() -> io::Result<V>) {
        self.stopping.store(true, Ordering::Release);
        if let (Ok(_), Some(thread)) = (visit(), self.thread.take()) {
            // If the thread panicked, the panic was reported when it happened.
            let _ = thread.join();
        }
    }
}
