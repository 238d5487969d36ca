//! A thread that checks whether the files of modules have changed, and reports events of modules.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Policies;
use crate::policies::News;

/// Watches the files until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Checks every `period`, and passes new events to `notify`. `None` if there are no modules.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(
        policies: &Policies,
        period: Duration,
        notify: impl Fn(&News) + Send + 'static,
    ) -> std::io::Result<Option<Watcher>> {
        if !policies.has_modules() {
            return Ok(None);
        }
        let policies = policies.clone();
        let (stop, stopped) = channel();
        let mut reported = vec![0; policies.reports().len()];
        let look = move || {
            loop {
                let is_last = stopped.recv_timeout(period) != Err(RecvTimeoutError::Timeout);
                policies.reload().iter().for_each(&notify);
                for (reported, report) in reported.iter_mut().zip(policies.reports()) {
                    if report.faults > *reported {
                        *reported = report.faults;
                        notify(&News::Faulted(report));
                    }
                }
                if is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("fairway-policies".into()).spawn(look)?;
        Ok(Some(Watcher { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The callback may have panicked; the thread that drops the watcher must not panic
            // because of it.
            let _ended = thread.join();
        }
    }
}
