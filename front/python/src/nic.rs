//! The NIC of a program.

use fairway::{
    Builder, Context, DatapathKind, JettyOptions, MailboxOptions, Spec, Steering, Threshold,
    WhenEmpty,
};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::CString;
use std::net::IpAddr;
use std::os::fd::IntoRawFd;
use std::str::FromStr;
use std::sync::Arc;

use crate::connection::{Connection, Lanes};
use crate::endpoint::Endpoint;
use crate::error::{exception, invalid, not_forked};
use crate::mailbox::Mailbox;
use crate::memory::{Lent, Registration, rights};
use crate::queue::Queue;
use crate::waiting::{limit, on_thread};

/// A NIC in software.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Nic {
    context: Context,
    lanes: Arc<Lanes>,
    queue: Arc<Queue>,
    /// Whether memory of peers on this host is mapped.
    maps: bool,
}

impl Nic {
    fn connection(&self, peer: fairway::Peer) -> Connection {
        Connection::new(peer, self.maps, self.lanes.clone(), self.queue.clone())
    }
}

#[pymethods]
impl Nic {
    /// Opens the sockets. Settings are those of `fairway.Context`; those that are absent have their
    /// defaults.
    #[new]
    fn new(py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<Nic> {
        let builder = builder(settings)?;
        let opened = py.detach(|| {
            let context = builder.build()?;
            let queue = Queue::start(&context)?;
            Ok((context, queue))
        });
        let (context, queue) = opened.map_err(|error: fairway::Error| exception(py, &error))?;
        if let Some(shortage) = context.socket_shortage() {
            let text = CString::new(shortage.to_string())?;
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 2)?;
        }
        let lanes = Arc::new(Lanes::new(context.clone()));
        let maps = context.datapath().shares_memory();
        Ok(Nic { lanes, context, queue, maps })
    }

    /// Fails in a child process that was forked after the context was made.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        not_forked(py, self.context.is_forked())
    }

    /// Local addresses of the sockets.
    fn addresses(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.check(py)?;
        Ok(self.context.local_addrs().iter().map(ToString::to_string).collect())
    }

    /// Registers `length` writable bytes at `address`, which exist as long as `owner` does.
    fn register(
        &self,
        py: Python<'_>,
        place: (usize, usize),
        owner: Py<PyAny>,
        rights: &str,
    ) -> PyResult<Registration> {
        let rights = self::rights(py, rights)?;
        let lent = Lent { address: place.0, length: place.1, owner };
        // SAFETY: the package calls this with the address of a buffer that `owner` exports.
        let made = unsafe { Registration::new(&self.context, lent, rights) };
        made.map_err(|error| exception(py, &error))
    }

    /// Registers `length` bytes of zeros that processes on this host may map. Also returns a
    /// descriptor of the file behind them, which the caller closes.
    fn register_shared(
        &self,
        py: Python<'_>,
        length: usize,
        rights: &str,
    ) -> PyResult<(Registration, i32)> {
        let rights = self::rights(py, rights)?;
        let made = Registration::shared(&self.context, length, rights);
        let (registration, file) = made.map_err(|error| exception(py, &error))?;
        Ok((registration, file.into_raw_fd()))
    }

    /// Connects to the context at `server`. With `patient`, a server that is not there yet is
    /// awaited.
    fn connect(
        &self,
        py: Python<'_>,
        server: String,
        timeout: Option<f64>,
        patient: bool,
    ) -> PyResult<Connection> {
        self.check(py)?;
        let (context, timeout) = (self.context.clone(), limit(py, timeout)?);
        let connect = move || match patient {
            false => context.connect(server, timeout),
            true => context.connect_when_up(server, timeout),
        };
        on_thread(py, connect).map(|peer| self.connection(peer))
    }

    /// The connections that are alive.
    fn connections(&self, py: Python<'_>) -> PyResult<Vec<Connection>> {
        self.check(py)?;
        Ok(self.context.peers().into_iter().map(|peer| self.connection(peer)).collect())
    }

    /// Creates an endpoint for messages.
    #[pyo3(signature = (number=None, depth=1024, token=0))]
    fn jetty(
        &self,
        py: Python<'_>,
        number: Option<u32>,
        depth: u32,
        token: u32,
    ) -> PyResult<Endpoint> {
        let options = JettyOptions::default().number(number).depth(depth).token(token);
        let jetty = self.context.create_jetty(options).map_err(|error| exception(py, &error))?;
        Ok(Endpoint::new(jetty))
    }

    /// Creates a mailbox.
    fn mailbox(&self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<Mailbox> {
        let options = mailbox_options(settings)?;
        let made = self.context.create_mailbox(&options);
        let mailbox = made.map_err(|error| exception(py, &error))?;
        Ok(Mailbox::new(mailbox, self.context.clone()))
    }

    /// Closes all connections and ends the background threads. Does nothing in a forked child.
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        if self.context.is_forked() {
            return Ok(());
        }
        let (context, timeout) = (self.context.clone(), limit(py, Some(timeout))?);
        let closed = on_thread(py, move || context.shutdown(timeout));
        self.queue.close();
        closed
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        if !self.context.is_forked() {
            self.queue.close();
        }
    }
}

/// Returns a setting, if it is there and not `None`.
fn setting<'py, T>(settings: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py>,
    for<'a> <T as FromPyObject<'a, 'py>>::Error: Into<PyErr>,
{
    match settings.get_item(name)? {
        Some(value) if !value.is_none() => value.extract().map(Some).map_err(|error| {
            let cause: PyErr = Into::into(error);
            invalid(settings.py(), &format!("{name} can't be {value}: {cause}"))
        }),
        _ => Ok(None),
    }
}

/// Parses a setting that is text.
fn parsed<T: FromStr<Err: std::fmt::Display>>(
    settings: &Bound<'_, PyDict>,
    name: &str,
) -> PyResult<Option<T>> {
    let Some(text) = setting::<String>(settings, name)? else { return Ok(None) };
    let parsed = text.parse().map(Some);
    parsed.map_err(|error| invalid(settings.py(), &format!("{name} can't be {text:?}: {error}")))
}

fn builder(settings: &Bound<'_, PyDict>) -> PyResult<Builder> {
    let mut builder = Context::builder();
    if let Some(bind) = parsed::<IpAddr>(settings, "bind")? {
        builder = builder.bind(bind);
    }
    if let Some(port) = setting(settings, "port")? {
        builder = builder.port(port);
    }
    if let Some(sockets) = setting(settings, "sockets")? {
        builder = builder.sockets(sockets);
    }
    if let Some(engines) = setting(settings, "engines")? {
        builder = builder.engines(engines);
    }
    if let Some(paths) = setting(settings, "paths")? {
        builder = builder.paths(paths);
    }
    if let Some(policy) = setting::<String>(settings, "policy")? {
        builder = builder.policy_named(&policy);
    }
    if let Some(mtu) = setting(settings, "mtu")? {
        builder = builder.mtu(mtu);
    }
    if let Some(datapath) = parsed::<DatapathKind>(settings, "datapath")? {
        builder = builder.datapath(datapath);
    }
    if let Some(stats) = setting(settings, "stats")? {
        builder = builder.stats(stats);
    }
    if let Some(spec) = parsed::<Spec>(settings, "emulate")? {
        builder = builder.emulate(spec, setting(settings, "seed")?.unwrap_or(1));
    }
    Ok(builder)
}

fn mailbox_options(settings: &Bound<'_, PyDict>) -> PyResult<MailboxOptions> {
    let mut options = MailboxOptions::default().address(setting(settings, "address")?);
    let bytes = setting(settings, "epoch_bytes")?.map(Threshold::Bytes);
    let puts = setting(settings, "epoch_puts")?.map(Threshold::Operations);
    if let Some(threshold) = bytes.or(puts) {
        options = options.threshold(threshold);
    }
    if setting(settings, "stream")?.unwrap_or(false) {
        options = options.steering(Steering::Receiver);
    }
    if setting(settings, "refuse_when_empty")?.unwrap_or(false) {
        options = options.when_empty(WhenEmpty::Refuse);
    }
    if let Some(key) = setting(settings, "key")? {
        options = options.key(key);
    }
    Ok(options.retired(setting(settings, "retired")?.unwrap_or(0)))
}
