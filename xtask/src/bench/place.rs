//! Places of measurements: the loopback interface, or a pair of network namespaces.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use crate::peers::{Side, Sides};

/// MTU for jumbo frames, so that a packet of 4096 bytes of payload is one frame.
const VETH_MTU: &str = "9000";

/// A place. Namespaces that were created for it are removed on drop.
pub struct Place {
    pub name: &'static str,
    pub sides: Sides,
    _namespaces: Option<Namespaces>,
}

/// Two network namespaces, connected by a veth pair.
struct Namespaces {
    names: [String; 2],
}

impl Place {
    /// Creates the place of this name.
    pub fn make(name: &str) -> io::Result<Place> {
        if name == "loopback" {
            let sides = Sides::local(IpAddr::V4(Ipv4Addr::LOCALHOST));
            return Ok(Place { name: "loopback", sides, _namespaces: None });
        }
        let namespaces = Namespaces::make()?;
        let side = |end: usize| Side {
            bind: IpAddr::V4(address(end)),
            core: end,
            namespace: Some(namespaces.names[end].clone()),
        };
        let sides = Sides { listener: side(0), driver: side(1) };
        Ok(Place { name: "veth", sides, _namespaces: Some(namespaces) })
    }
}

impl Namespaces {
    fn make() -> io::Result<Self> {
        let number = std::process::id();
        let names = [0, 1].map(|end| format!("fairway-{number}-{end}"));
        // Interface names have at most 15 characters.
        let cables = [0, 1].map(|end| format!("fw{number}{}", ["a", "b"][end]));
        // If a step below fails, the namespaces are dropped and so removed, and the veth pair with
        // them.
        let namespaces = Namespaces { names };
        for name in &namespaces.names {
            ip(&["netns", "add", name])?;
        }
        let [first, second] = &namespaces.names;
        let [near, far] = &cables;
        ip(&[
            "link", "add", near, "mtu", VETH_MTU, "netns", first, "type", "veth", "peer", "name",
            far, "mtu", VETH_MTU, "netns", second,
        ])?;
        for (end, (name, cable)) in namespaces.names.iter().zip(&cables).enumerate() {
            let address = format!("{}/30", address(end));
            ip(&["-n", name, "address", "add", &address, "dev", cable])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "link", "set", cable, "up"])?;
        }
        Ok(namespaces)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // A namespace that was not created can't be removed; the error is ignored.
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// Addresses that are visible in these namespaces only.
fn address(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 254, 77, 1 + end as u8)
}

fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::other(format!("could not run ip (iproute2): {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {}", arguments.join(" "), text.trim())))
}
