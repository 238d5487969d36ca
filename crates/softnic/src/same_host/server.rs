//! The owner's side: who asks for a segment gets the file behind it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use fairway_engine::Rights;

use super::passing::{self, Question};
use super::{Gate, Share};
use crate::memory::Memory;

/// How long somebody who asks may take.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Waits at the context's name, on a thread of its own, until it is dropped.
pub(crate) struct Server {
    inner: Arc<Inner>,
    incarnation: u32,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Inner {
    shares: Mutex<Vec<Weak<Share>>>,
    stopping: AtomicBool,
}

impl Server {
    /// Fails if another context has the name: then nothing is shared.
    pub(crate) fn start(incarnation: u32) -> io::Result<Server> {
        let listener = UnixListener::bind_addr(&passing::name_of(incarnation)?)?;
        let inner = Arc::new(Inner::default());
        let shared = inner.clone();
        let builder = std::thread::Builder::new().name("fairway-share".into());
        let thread = builder.spawn(move || shared.run(&listener))?;
        Ok(Server { inner, incarnation, thread: Some(thread) })
    }

    pub(crate) fn add(&self, share: &Arc<Share>) {
        let mut shares = self.inner.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.retain(|share| share.strong_count() > 0);
        shares.push(Arc::downgrade(share));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.inner.stopping.store(true, Ordering::Release);
        // A visitor wakes the thread. If there can be none, the thread ends with the process.
        let visit =
            passing::name_of(self.incarnation).and_then(|name| UnixStream::connect_addr(&name));
        if let (Ok(_), Some(thread)) = (visit, self.thread.take()) {
            // Its panic, if it had one, was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Inner {
    fn run(&self, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            // Who asks in vain, or not to the end, goes over the network.
            let _ = self.serve(stream);
        }
    }

    fn serve(&self, mut stream: UnixStream) -> io::Result<()> {
        if !passing::is_ours(&stream) {
            return Ok(());
        }
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let question = passing::receive_question(&mut stream)?;
        match question.and_then(|question| self.find(question)) {
            Some(share) => hand_over(&stream, &share),
            None => stream.write_all(&[0]),
        }
    }

    fn find(&self, question: Question) -> Option<Arc<Share>> {
        let shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shares = shares.iter().filter_map(Weak::upgrade);
        shares.find(|share| {
            let asked = (question.token_id, question.token_value);
            (share.key.token_id, share.key.token_value) == asked && !share.gate.is_closed()
        })
    }
}

fn hand_over(stream: &UnixStream, share: &Share) -> io::Result<()> {
    let Gate { memory: gate } = &share.gate;
    let (Some(file), Some(gate)) = (share.memory.file(), gate.file()) else { return Ok(()) };
    let changes = share.rights.contains(Rights::WRITE) || share.rights.contains(Rights::ATOMIC);
    if changes {
        return passing::send_files(stream, share.rights, [file, gate]);
    }
    // Opened again, so that it cannot be mapped for writing.
    let readable = File::open(Memory::path_of(file))?;
    passing::send_files(stream, share.rights, [readable.as_raw_fd(), gate])
}
