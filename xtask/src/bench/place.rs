//! Places of measurements: the loopback interface, or two network namespaces.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use crate::peers::{Side, Sides};

/// MTU for jumbo frames, so that a packet of 4096 bytes of payload is one frame.
const VETH_MTU: &str = "9000";

/// Names of the places.
pub const LOOPBACK: &str = "loopback";
pub const VETH: &str = "veth";
/// Two namespaces joined by several veth pairs.
pub const PATHS: &str = "paths";

/// Number of veth pairs in the place `paths`.
const PAIRS: usize = 4;

/// A place. Namespaces that were created for it are removed on drop.
pub struct Place {
    pub name: &'static str,
    pub sides: Sides,
    /// The two ends of each veth pair; in `loopback`, the sides alone.
    pub pairs: Vec<Sides>,
    _namespaces: Option<Namespaces>,
}

/// Two network namespaces, connected by veth pairs.
struct Namespaces {
    names: [String; 2],
}

impl Place {
    /// Creates the place of this name.
    pub fn make(name: &str) -> io::Result<Place> {
        if name == LOOPBACK {
            let sides = Sides::local(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let pairs = vec![sides.clone()];
            return Ok(Place { name: LOOPBACK, sides, pairs, _namespaces: None });
        }
        let (name, count) = if name == PATHS { (PATHS, PAIRS) } else { (VETH, 1) };
        let namespaces = Namespaces::make(count)?;
        let sides = |address: &dyn Fn(usize) -> Ipv4Addr| {
            let side = |end: usize| Side {
                bind: IpAddr::V4(address(end)),
                core: end,
                namespace: Some(namespaces.names[end].clone()),
            };
            Sides { listener: side(0), driver: side(1) }
        };
        let pairs: Vec<Sides> = (0..count).map(|pair| sides(&|end| address(pair, end))).collect();
        let sides = if count == 1 { pairs[0].clone() } else { sides(&common_address) };
        Ok(Place { name, sides, pairs, _namespaces: Some(namespaces) })
    }
}

impl Namespaces {
    /// Creates the namespaces, and connects them by this number of veth pairs.
    fn make(pairs: usize) -> io::Result<Self> {
        let number = std::process::id();
        let names = [0, 1].map(|end| format!("fairway-{number}-{end}"));
        // If a step below fails, the namespaces are dropped and so removed, and the veth pairs with
        // them.
        let namespaces = Namespaces { names };
        for name in &namespaces.names {
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        for pair in 0..pairs {
            namespaces.connect(pair)?;
        }
        if pairs > 1 {
            namespaces.share_address(pairs)?;
        }
        Ok(namespaces)
    }

    /// Connects the namespaces by a veth pair whose ends have addresses of their own.
    fn connect(&self, pair: usize) -> io::Result<()> {
        let [first, second] = &self.names;
        let [near, far] = [0, 1].map(|end| cable(pair, end));
        ip(&[
            "link", "add", &near, "mtu", VETH_MTU, "netns", first, "type", "veth", "peer", "name",
            &far, "mtu", VETH_MTU, "netns", second,
        ])?;
        for (end, (name, cable)) in self.names.iter().zip([&near, &far]).enumerate() {
            let address = format!("{}/30", address(pair, end));
            ip(&["-n", name, "address", "add", &address, "dev", cable])?;
            ip(&["-n", name, "link", "set", cable, "up"])?;
        }
        Ok(())
    }

    /// Gives each namespace one address that the other reaches over all pairs: the kernel chooses
    /// the pair of a packet by a hash of addresses and ports, as the switches of a data centre do.
    fn share_address(&self, pairs: usize) -> io::Result<()> {
        for (end, name) in self.names.iter().enumerate() {
            let own = common_address(end).to_string();
            let device = cable(0, end);
            ip(&["-n", name, "address", "add", &format!("{own}/32"), "dev", &device])?;
            let policy = "echo 1 > /proc/sys/net/ipv4/fib_multipath_hash_policy";
            ip(&["netns", "exec", name, "sh", "-c", policy])?;
            let other = format!("{}/32", common_address(1 - end));
            let mut route = vec!["-n", name, "route", "add", &other, "src", &own];
            let hops: Vec<[String; 2]> = (0..pairs)
                .map(|pair| [address(pair, 1 - end).to_string(), cable(pair, end)])
                .collect();
            for [gateway, device] in &hops {
                route.extend(["nexthop", "via", gateway, "dev", device]);
            }
            ip(&route)?;
        }
        Ok(())
    }
}

/// Name of the interface at one end of a pair, of at most 15 characters.
fn cable(pair: usize, end: usize) -> String {
    format!("fw{}{}{pair}", std::process::id(), ["a", "b"][end])
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // A namespace that was not created can't be removed; the error is ignored.
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// Address of one end of a pair, visible in these namespaces only.
fn address(pair: usize, end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 254, 77, (4 * pair + 1 + end) as u8)
}

/// Address of a namespace that is reached over all pairs.
fn common_address(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 254, 78, 1 + end as u8)
}

/// Runs `ip` with these arguments, which must succeed.
pub fn ip(arguments: &[&str]) -> io::Result<()> {
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
