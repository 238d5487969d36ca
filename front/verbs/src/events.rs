//! Event queues on which a program may sleep: the file descriptor of a queue is readable as long as
//! the queue holds an event.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use libc::c_int;

use crate::abi::{ibv_async_event, ibv_event_element};
use crate::guard::{Errno, Result, UnackedEvents, lock, set_errno};

/// Events, and a file descriptor that counts them.
pub struct EventQueue<T> {
    /// An eventfd in semaphore mode. While the lock is held, its count is the number of events.
    descriptor: OwnedFd,
    events: Mutex<VecDeque<T>>,
    wakes: Wakes,
}

fn last_error() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

unsafe extern "C-unwind" {
    /// As in the crate `libc`, but declared so that a thread that is cancelled in it may unwind.
    fn sem_wait(semaphore: *mut libc::sem_t) -> libc::c_int;
}

/// What a body of [`take_or_sleep`] returns if there is no event yet.
pub const NOT_YET: c_int = 1;

/// Runs `take` until it returns something else than [`NOT_YET`], and sleeps in between until the
/// queue has an event. Returns -1 and sets errno if the sleep fails. A queue whose channel is
/// destroyed meanwhile stays and receives no further events, so that the call sleeps on: some
/// programs destroy channels on which their threads sleep, as the last thing before they end
/// (`rping`).
///
/// Programs cancel threads that sleep here (`pthread_cancel`), and the stack is unwound. So callers
/// hold nothing that has to be dropped and catch no panic around this call, and in that case the
/// queue is leaked here.
pub fn take_or_sleep<T>(
    queue: Arc<EventQueue<T>>,
    take: impl Fn(&EventQueue<T>) -> c_int,
) -> c_int {
    let queue = ManuallyDrop::new(queue);
    let result = loop {
        let taken = take(&queue);
        if taken != NOT_YET {
            break taken;
        }
        if let Err(error) = queue.sleep() {
            set_errno(error);
            break -1;
        }
    };
    drop(ManuallyDrop::into_inner(queue));
    result
}

/// Wakes threads that sleep for events: a semaphore, because `sem_wait` is a cancellation point,
/// and the kernel restarts it after a signal whose handler has `SA_RESTART`, as it restarts the
/// `read` of libibverbs. (`poll` on the descriptor is never restarted, and `read` would take a
/// count from it.)
///
/// Its value follows the number of events, but may be larger for a moment: a thread that wakes
/// looks for an event, and sleeps again if there is none.
struct Wakes(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: a semaphore is made for use by several threads, through its address.
unsafe impl Send for Wakes {}
// SAFETY: likewise.
unsafe impl Sync for Wakes {}

impl Wakes {
    fn new() -> Wakes {
        // SAFETY: all of it may be zeros.
        let wakes = Wakes(Box::new(UnsafeCell::new(unsafe { std::mem::zeroed() })));
        // SAFETY: initialised once, at the address at which it stays. It cannot fail with 0.
        unsafe { libc::sem_init(wakes.0.get(), 0, 0) };
        wakes
    }

    fn post(&self) {
        // SAFETY: initialised in `new`. It fails only if the value is at its maximum.
        unsafe { libc::sem_post(self.0.get()) };
    }

    /// Decrements the value, unless it is 0: another thread is waking, and looks for an event.
    fn take_back(&self) {
        // SAFETY: initialised in `new`.
        unsafe { libc::sem_trywait(self.0.get()) };
    }

    fn wait(&self) -> Result<()> {
        // SAFETY: initialised in `new`.
        if unsafe { sem_wait(self.0.get()) } == 0 { Ok(()) } else { Err(last_error()) }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        // SAFETY: no other thread has a reference, so none waits.
        unsafe { libc::sem_destroy(self.0.get()) };
    }
}

impl<T> EventQueue<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> Result<EventQueue<T>> {
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(last_error());
        }
        // SAFETY: just opened, and no other owner has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(EventQueue { descriptor, events: Mutex::default(), wakes: Wakes::new() })
    }

    /// A descriptor that is readable while the queue holds events.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Sleeps until there may be an event.
    ///
    /// # Errors
    /// `EAGAIN` if the program has made the descriptor non-blocking. `EINTR` if a signal ends the
    /// sleep: its handler has not `SA_RESTART`.
    pub fn sleep(&self) -> Result<()> {
        // SAFETY: no pointers.
        if unsafe { libc::fcntl(self.descriptor(), libc::F_GETFL) } & libc::O_NONBLOCK != 0 {
            return Err(Errno(libc::EAGAIN));
        }
        self.wakes.wait()?;
        // This thread has been woken, and not taken an event yet: another one may take it, and must
        // find the value that belongs to it.
        let events = lock(&self.events);
        if !events.is_empty() {
            self.wakes.post();
        }
        Ok(())
    }

    /// Adds an event at the end.
    pub fn push(&self, event: T) {
        self.add(event, VecDeque::push_back);
    }

    /// Puts an event back that [`next`](Self::next) has returned: it is the next one again.
    pub fn put_back(&self, event: T) {
        self.add(event, VecDeque::push_front);
    }

    fn add(&self, event: T, add: impl FnOnce(&mut VecDeque<T>, T)) {
        let mut events = lock(&self.events);
        add(&mut events, event);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: 8 bytes of ours. The count never comes near its maximum, so it does not block.
        unsafe { libc::write(self.descriptor(), one.as_ptr().cast(), 8) };
        self.wakes.post();
    }

    /// Gives the descriptor an eventfd of its own, with this count, in a child of `fork`, which
    /// otherwise shares that of its parent. The count may differ from the number of events only if
    /// no event is taken before [`start_anew`](Self::start_anew). Allocates nothing and takes no
    /// lock.
    pub fn replace_descriptor(&self, count: u32) {
        // SAFETY: no pointers. The descriptor stays open: only what it refers to is replaced.
        unsafe {
            let blocking = libc::fcntl(self.descriptor(), libc::F_GETFL) & libc::O_NONBLOCK == 0;
            let flags = if blocking { 0 } else { libc::EFD_NONBLOCK };
            let own = libc::eventfd(count, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC | flags);
            // Without a free descriptor the old one stays.
            if own >= 0 {
                libc::dup3(own, self.descriptor(), libc::O_CLOEXEC);
                libc::close(own);
            }
        }
    }

    /// Drops all events in a child of `fork`, because they are its parent's.
    pub fn start_anew(&self) {
        let mut events = lock(&self.events);
        events.clear();
        self.replace_descriptor(0);
    }

    /// Decrements the eventfd's count, which must not be zero.
    fn take_token(&self) {
        let mut token = [0_u8; 8];
        // SAFETY: a local buffer of 8 bytes.
        unsafe { libc::read(self.descriptor(), token.as_mut_ptr().cast(), 8) };
        self.wakes.take_back();
    }

    /// Removes and returns the next event, if there is one. Calls `taken` on it first, with the
    /// lock held.
    pub fn next(&self, taken: impl FnOnce(&T)) -> Option<T> {
        let mut events = lock(&self.events);
        let event = events.pop_front()?;
        self.take_token();
        taken(&event);
        Some(event)
    }

    /// Drops the events that match `gone`, because no call is to return them any more.
    pub fn forget(&self, gone: impl Fn(&T) -> bool) {
        let mut events = lock(&self.events);
        let before = events.len();
        events.retain(|event| !gone(event));
        for _ in events.len()..before {
            self.take_token();
        }
    }
}

/// An asynchronous event to be delivered to the program.
pub struct AsyncEvent {
    /// Address of the object that the event is about.
    pub object: usize,
    /// `enum ibv_event_type`.
    pub kind: i32,
    /// Counter that records the acknowledgement of the event.
    pub unacked: Arc<UnackedEvents>,
}

impl AsyncEvent {
    /// The event as the C struct.
    pub fn to_c(&self) -> ibv_async_event {
        let element = ibv_event_element { qp: self.object as *mut _ };
        ibv_async_event { element, event_type: self.kind }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn readable(queue: &EventQueue<u32>) -> bool {
        let mut poll = libc::pollfd { fd: queue.descriptor(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` reads and writes one local `pollfd`.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    #[test]
    fn the_descriptor_counts_what_is_there() {
        let queue = EventQueue::new().expect("a descriptor");
        assert!(!readable(&queue));
        (1..=4).for_each(|event| queue.push(event));
        assert_eq!(queue.next(|_| ()), Some(1));
        queue.forget(|event| event % 2 == 0);
        assert_eq!(queue.next(|_| ()), Some(3));
        assert!(!readable(&queue));
        assert_eq!(queue.next(|_| ()), None);
    }

    #[test]
    fn a_call_without_an_event_fails_if_its_descriptor_is_non_blocking() {
        let queue = Arc::new(EventQueue::<u32>::new().expect("a descriptor"));
        // SAFETY: no pointers.
        unsafe { libc::fcntl(queue.descriptor(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(take_or_sleep(queue, |_| NOT_YET), -1);
        assert_eq!(last_error(), Errno(libc::EAGAIN));
    }

    #[test]
    fn an_event_that_is_put_back_is_the_next_one_again() {
        let queue = EventQueue::new().expect("a descriptor");
        (1..=2).for_each(|event| queue.push(event));
        let event = queue.next(|_| ()).expect("the first");
        queue.put_back(event);
        let events = [(); 3].map(|()| queue.next(|_| ()));
        assert_eq!(events, [Some(1), Some(2), None]);
        assert!(!readable(&queue));
    }

    /// Number of signals that a thread has handled.
    static HANDLED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handle(_signal: c_int) {
        HANDLED.fetch_add(1, Ordering::SeqCst);
    }

    /// Sends a signal to the thread, once it sleeps, and waits until its handler has run.
    fn interrupt(thread: libc::pthread_t, number: libc::pid_t, signal: c_int) {
        let state = || {
            let text = std::fs::read_to_string(format!("/proc/self/task/{number}/stat"));
            text.ok()?.rsplit(") ").next()?.chars().next()
        };
        while state().is_some_and(|state| state != 'S') {
            std::thread::yield_now();
        }
        let before = HANDLED.load(Ordering::SeqCst);
        // SAFETY: the thread has not been joined.
        unsafe { libc::pthread_kill(thread, signal) };
        while HANDLED.load(Ordering::SeqCst) == before && state().is_some() {
            std::thread::yield_now();
        }
    }

    /// Starts a thread that takes an event from `queue`. Returns it with its two numbers.
    fn sleeper(
        queue: &Arc<EventQueue<u32>>,
    ) -> (std::thread::JoinHandle<(c_int, Errno)>, libc::pthread_t, libc::pid_t) {
        use std::os::unix::thread::JoinHandleExt;
        let (tell, told) = std::sync::mpsc::channel();
        let queue = Arc::clone(queue);
        let thread = std::thread::spawn(move || {
            // SAFETY: has no conditions.
            tell.send(unsafe { libc::gettid() }).expect("the test waits for it");
            let take =
                |queue: &EventQueue<u32>| queue.next(|_| ()).map_or(NOT_YET, |it| it as c_int);
            (take_or_sleep(queue, take), last_error())
        });
        let pthread = thread.as_pthread_t();
        (thread, pthread, told.recv().expect("the thread sends it"))
    }

    #[test]
    fn sleep_goes_on_after_a_signal_whose_handler_restarts_calls_and_ends_after_others() {
        let (restarting, ending) = (libc::SIGUSR1, libc::SIGUSR2);
        for (signal, flags) in [(restarting, libc::SA_RESTART), (ending, 0)] {
            // SAFETY: all of it may be zeros; the handler only adds to a number.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as extern "C" fn(c_int) as usize;
                action.sa_flags = flags;
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
        let queue = Arc::new(EventQueue::new().expect("a descriptor"));
        let (thread, pthread, number) = sleeper(&queue);
        for _ in 0..20 {
            interrupt(pthread, number, restarting);
        }
        queue.push(7);
        assert_eq!(thread.join().expect("it ends").0, 7);
        let (thread, pthread, number) = sleeper(&queue);
        while !thread.is_finished() {
            interrupt(pthread, number, ending);
        }
        assert_eq!(thread.join().expect("it ends"), (-1, Errno(libc::EINTR)));
    }

    #[test]
    fn as_many_sleepers_wake_as_there_are_events() {
        let queue = Arc::new(EventQueue::new().expect("a descriptor"));
        for _ in 0..50 {
            let threads = [(); 4].map(|()| sleeper(&queue).0);
            (11..=14).for_each(|event| queue.push(event));
            let mut taken = threads.map(|thread| thread.join().expect("it ends").0);
            taken.sort_unstable();
            assert_eq!(taken, [11, 12, 13, 14]);
        }
        assert!(!readable(&queue));
    }

    #[test]
    fn a_sleeping_thread_is_woken_by_an_event() {
        let queue = Arc::new(EventQueue::new().expect("a descriptor"));
        let sleeper = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || take_or_sleep(queue, |queue| queue.next(|_| ()).unwrap_or(NOT_YET))
        });
        queue.push(7);
        assert_eq!(sleeper.join().expect("it ends"), 7);
    }
}
