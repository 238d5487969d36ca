//! Hosts that are connected by veth pairs and a bridge: network namespaces of this machine, without
//! a limit of rate.

use std::io;
use std::net::Ipv4Addr;

use crate::bench::place::ip;

/// Longest packet of a host.
const MTU: &str = "9000";

/// The namespaces. Removed on drop.
pub struct Bridge {
    prefix: String,
    hosts: u32,
}

impl Bridge {
    /// Creates so many hosts, which requires root.
    pub fn make(hosts: u32) -> io::Result<Bridge> {
        let bridge = Bridge { prefix: format!("fwc{}", std::process::id()), hosts };
        let switch = bridge.switch();
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", "bridge0", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "bridge0", "mtu", MTU, "up"])?;
        for host in 0..hosts {
            bridge.add(host)?;
        }
        Ok(bridge)
    }

    fn add(&self, host: u32) -> io::Result<()> {
        let (name, switch, port) = (self.namespace(host), self.switch(), format!("port{host}"));
        ip(&["netns", "add", &name])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        ip(&[
            "link", "add", "fairway0", "mtu", MTU, "netns", &name, "type", "veth", "peer", "name",
            &port, "mtu", MTU, "netns", &switch,
        ])?;
        ip(&["-n", &switch, "link", "set", &port, "master", "bridge0", "up"])?;
        let address = format!("{}/24", Bridge::address(host));
        ip(&["-n", &name, "address", "add", &address, "dev", "fairway0"])?;
        ip(&["-n", &name, "link", "set", "fairway0", "up"])
    }

    /// The namespace of a host.
    pub fn namespace(&self, host: u32) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// The address of a host.
    pub fn address(host: u32) -> Ipv4Addr {
        Ipv4Addr::new(10, 254, 79, host as u8 + 1)
    }

    fn switch(&self) -> String {
        format!("{}-switch", self.prefix)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let hosts = (0..self.hosts).map(|host| self.namespace(host));
        for name in hosts.chain([self.switch()]) {
            // A namespace that was not created can't be removed; the error is ignored.
            let _ = ip(&["netns", "delete", &name]);
        }
    }
}
