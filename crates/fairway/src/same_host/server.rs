//! The owner's side: passes the file behind a segment to processes that request it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use fairway_runtime::{Memory, start_thread};
use fairway_ub::Rights;

use super::passing::{self, MappingRequest};
use super::{Gate, Share};
use crate::key::SegmentKey;

/// Pause after the system could not accept a connection.
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum time that a process may take for its request.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Listens at the context's name, on a separate thread, until it is dropped.
pub(crate) struct Server {
    inner: Arc<Inner>,
    name: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Inner {
    /// Shared segments, by their number and secret.
    shares: Mutex<Vec<(MappingRequest, Weak<Share>)>>,
    stopping: AtomicBool,
}

impl Server {
    /// Starts the server. Fails if another context has the name; then nothing is shared.
    pub(crate) fn start(incarnation: u32) -> io::Result<Server> {
        let name = SocketAddr::from_abstract_name(passing::name_of(incarnation))?;
        let listener = UnixListener::bind_addr(&name)?;
        let inner = Arc::new(Inner::default());
        let shared = inner.clone();
        let thread = start_thread("fairway-share", move || shared.run(&listener))?;
        Ok(Server { inner, name, thread: Some(thread) })
    }

    pub(crate) fn add(&self, share: &Arc<Share>) {
        let mut shares = self.inner.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.retain(|(_, share)| share.strong_count() > 0);
        let SegmentKey { token_id, token_value, .. } = share.key;
        shares.push((MappingRequest { token_id, token_value }, Arc::downgrade(share)));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.inner.stopping.store(true, Ordering::Release);
        // A connection wakes the thread. If none can be made, the thread ends with the process.
        let visit = UnixStream::connect_addr(&self.name);
        if let (Ok(_), Some(thread)) = (visit, self.thread.take()) {
            // If the thread panicked, the panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Inner {
    fn run(&self, listener: &UnixListener) {
        loop {
            let visitor = listener.accept();
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            match visitor {
                // A process whose request fails, or is incomplete, uses the network instead.
                Ok((stream, _)) => _ = self.serve(stream),
                // The process has no file descriptor or memory left; perhaps it has some in a
                // moment.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn serve(&self, mut stream: UnixStream) -> io::Result<()> {
        if !fairway_port::is_same_user(&stream) {
            return Ok(());
        }
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let request = passing::receive_request(&mut stream)?;
        match request.and_then(|request| self.find(request)) {
            Some(share) => hand_over(&stream, &share),
            None => stream.write_all(&[0]),
        }
    }

    fn find(&self, request: MappingRequest) -> Option<Arc<Share>> {
        let shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        // Only the requested segment's reference is upgraded, so that others can be dropped
        // meanwhile.
        let mut named = shares.iter().filter(|(name, _)| *name == request);
        named.find_map(|(_, share)| share.upgrade()).filter(|share| !share.gate.is_closed())
    }
}

fn hand_over(stream: &UnixStream, share: &Share) -> io::Result<()> {
    let Gate { memory: gate } = &share.gate;
    let (Some(file), Some(gate)) = (share.memory.file(), gate.file()) else { return Ok(()) };
    let changes = share.rights.contains(Rights::WRITE) || share.rights.contains(Rights::ATOMIC);
    if changes {
        return passing::send_files(stream, share.rights, [file, gate]);
    }
    // The file is opened again, read-only, so that it is not mapped for writing by mistake.
    let readable = File::open(Memory::path_of(file))?;
    passing::send_files(stream, share.rights, [readable.as_fd(), gate])
}
