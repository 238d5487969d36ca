// Finds installed programs, and detects when a server is ready. Part of xtask and of the tests,
// which include this file.

use std::net::TcpListener;
use std::path::PathBuf;

/// Names of the connection manager's port spaces for connections and for datagrams (Annex A11 of
/// the InfiniBand specification).
pub const CONNECTIONS: &str = "106";
pub const DATAGRAMS: &str = "111";

/// Returns the path at which the program `program` is installed, searched in `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns a TCP port that no program uses.
pub fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("0.0.0.0", 0))?.local_addr()?.port())
}

/// Whether a program listens at this TCP port.
pub fn listens_at(port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        std::fs::read_to_string(table).unwrap_or_default().lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let here = fields.get(1).is_some_and(|at| at.ends_with(&local));
            here && fields.get(3) == Some(&"0A")
        })
    })
}

/// Whether a program listens at this port of the connection manager. A listener claims the name of
/// its service by an abstract Unix socket, which the kernel lists.
pub fn offers_service(space: &str, port: u16) -> bool {
    let name = format!("@fairway-verbs-service-{space}{port:04x}");
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    table.lines().any(|line| line.ends_with(&name))
}
