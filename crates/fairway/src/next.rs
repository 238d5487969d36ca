//! Completions as futures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use crate::completion::Completion;
use crate::core::{WaitCondition, WakeTarget};
use crate::error::Error;
use crate::shared::Handle;

/// The next completion of a Jetty; see [`crate::Jetty::next_completion`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct NextCompletion<'a> {
    handle: &'a Handle,
    jetty: usize,
    /// The number of this future's entry among the sleepers, if it has one.
    interest: Option<u64>,
}

impl<'a> NextCompletion<'a> {
    pub(crate) fn new(handle: &'a Handle, jetty: usize) -> Self {
        NextCompletion { handle, jetty, interest: None }
    }
}

impl Future for NextCompletion<'_> {
    type Output = Result<Completion, Error>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let (jetty, left) = (self.jetty, self.interest.take());
        let shared = self.handle.live()?;
        // Wakers are cloned and dropped without the lock, because that runs code of the
        // application.
        let mut waker = Some(WakeTarget::Task(task.waker().clone()));
        let (completion, _earlier) = shared.poll_once(|core| {
            let earlier = left.and_then(|number| core.interests.remove(number));
            let completion = core.next_completion(jetty).ok_or_else(|| {
                let wake = waker.take().expect("this closure is called once");
                core.interests.add(WaitCondition::Completion(jetty), wake)
            });
            (completion, earlier)
        });
        match completion {
            Ok(completion) => Poll::Ready(completion),
            Err(number) => {
                self.interest = Some(number);
                // No thread of the application polls while the task sleeps.
                shared.demand_background();
                Poll::Pending
            }
        }
    }
}

impl Drop for NextCompletion<'_> {
    fn drop(&mut self) {
        if let (Some(number), Ok(shared)) = (self.interest, self.handle.live()) {
            let _waker = shared.with(|core| core.interests.remove(number));
        }
    }
}

impl fmt::Debug for NextCompletion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextCompletion").field("jetty", &self.jetty).finish_non_exhaustive()
    }
}
