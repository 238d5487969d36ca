//! The one NIC of the process, from `RVMA_Init` to `RVMA_Finalize`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, RwLock};
use std::time::Duration;

use fairway::{Context, Error, MailboxOptions, without_signals};

use crate::guard::lock;
use crate::operations::Operations;
use crate::options::Settings;
use crate::peers::Peers;
use crate::registry::Registry;
use crate::slots::Slots;
use crate::status::{Failure, Result, Status};
use crate::window::Window;

/// Longest wait at the end for peers to acknowledge the farewell.
const FAREWELL: Duration = Duration::from_secs(1);
/// Kind of window handles, different from that of request handles.
const KIND: usize = 1;

static CURRENT: RwLock<Option<Arc<Library>>> = RwLock::new(None);
/// Set in a child of a process that had initialised the library: the background thread does not
/// exist in the child, and the sockets are the parent's.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Whether the library holds resources that a child could not use. Set before initialisation
/// begins, until after finalisation.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// All state from `RVMA_Init` to `RVMA_Finalize`.
pub(crate) struct Library {
    pub(crate) context: Context,
    pub(crate) registry: Registry,
    pub(crate) peers: Peers,
    pub(crate) operations: Operations,
    windows: Mutex<Slots<Arc<Window>>>,
    ended: AtomicBool,
}

/// `RVMA_Init`.
pub(crate) fn begin(settings: Settings) -> Result<()> {
    check_not_forked()?;
    let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
    if current.is_some() {
        return Err(Failure::of(Status::Init));
    }
    watch_for_forks();
    IN_USE.store(true, Ordering::Release);
    let library = Library::new(settings).inspect_err(|_| IN_USE.store(false, Ordering::Release))?;
    *current = Some(Arc::new(library));
    Ok(())
}

/// `RVMA_Finalize`.
pub(crate) fn end() -> Result<()> {
    check_not_forked()?;
    let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
    let library = current.take().ok_or_else(|| Failure::of(Status::NotInit))?;
    library.end();
    IN_USE.store(false, Ordering::Release);
    Ok(())
}

/// The state that `RVMA_Init` created.
pub(crate) fn current() -> Result<Arc<Library>> {
    check_not_forked()?;
    let current = CURRENT.read().unwrap_or_else(PoisonError::into_inner);
    current.clone().ok_or_else(|| Failure::of(Status::NotInit))
}

fn check_not_forked() -> Result<()> {
    match FORKED.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(Failure::of(Status::Forked)),
    }
}

/// Registers a handler by which, after the first `RVMA_Init`, children of `fork` find out that
/// their parent had initialised the library.
fn watch_for_forks() {
    extern "C" fn in_child() {
        if IN_USE.load(Ordering::Acquire) {
            FORKED.store(true, Ordering::Relaxed);
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only uses atomics.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

impl Library {
    fn new(settings: Settings) -> Result<Library> {
        let built = without_signals(|| settings.builder.build());
        let context = built.map_err(|error| match error {
            Error::Parameter { .. } => error.into(),
            other => Failure::new(Status::System, other.to_string()),
        })?;
        Ok(Library {
            registry: Registry::new(context.clone()),
            peers: Peers::new(context.clone(), settings.connect_timeout),
            operations: Operations::new(&context)?,
            windows: Mutex::new(Slots::new(KIND)),
            ended: AtomicBool::new(false),
            context,
        })
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let mut windows = lock(&self.windows);
        windows.iter_mut().for_each(|window| window.free());
        drop(windows);
        // Peers that do not answer are not notified again; all connections are closed in either
        // case.
        let _ = self.context.shutdown(FAREWELL);
        self.operations.cancel_all();
    }

    /// Whether `RVMA_Finalize` has been called meanwhile.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Address of the first socket.
    pub(crate) fn local_addr(&self) -> Result<SocketAddr> {
        let addresses = self.context.local_addrs();
        addresses.first().copied().ok_or_else(|| Failure::of(Status::Internal))
    }

    pub(crate) fn create_window(&self, options: &MailboxOptions) -> Result<usize> {
        let window = Arc::new(Window::new(&self.context, options)?);
        let mut windows = lock(&self.windows);
        if self.has_ended() {
            return Err(Failure::of(Status::Cancelled));
        }
        Ok(windows.insert(window))
    }

    pub(crate) fn window(&self, handle: usize) -> Result<Arc<Window>> {
        let window = lock(&self.windows).get_mut(handle).cloned();
        window.ok_or_else(|| Failure::of(Status::Window))
    }

    pub(crate) fn free_window(&self, handle: usize) -> Result<()> {
        let window = lock(&self.windows).remove(handle);
        window.ok_or_else(|| Failure::of(Status::Window))?.free();
        Ok(())
    }
}
