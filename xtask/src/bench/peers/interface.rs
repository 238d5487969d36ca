//! The devices of the verbs library in a place.

use std::io;
use std::path::Path;

use serde_json::Value;

use crate::bench::place::{LOOPBACK, Place};
use crate::peers::Side;
use crate::programs::{command, json};

/// The network interface of a side, and its device of the verbs library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Name of its device, if no other interface appears as one.
    pub device: String,
    /// Address of the side.
    pub address: String,
}

/// The devices of both sides.
pub struct Interfaces {
    pub listener: Interface,
    pub driver: Interface,
    /// The device of both sides for libfabric, whose verbs leave the loopback interface out; or the
    /// reason why there is none.
    pub libfabric: Result<[Interface; 2], String>,
}

impl Interfaces {
    /// Finds the devices of a place.
    ///
    /// # Errors
    /// An address of the place belongs to no device.
    pub fn find(tool: &Path, place: &Place) -> io::Result<Interfaces> {
        let find = |side: &Side| {
            let devices = devices(tool, side)?;
            let address = side.bind.to_string();
            interface(&devices, |gid| gid == address).ok_or_else(|| {
                io::Error::other(format!("no device of `fairway devices` has {address}"))
            })
        };
        let (listener, driver) = (find(&place.sides.listener)?, find(&place.sides.driver)?);
        let libfabric = if place.name == LOOPBACK {
            let outside = |gid: &str| gid.contains('.') && !gid.starts_with("127.");
            let other = interface(&devices(tool, &place.sides.driver)?, outside);
            other.map(|interface| [interface.clone(), interface]).ok_or_else(|| {
                "libfabric's verbs leave out the loopback interface, and there is no other with \
                 an IPv4 address"
                    .to_owned()
            })
        } else {
            Ok([listener.clone(), driver.clone()])
        };
        Ok(Interfaces { listener, driver, libfabric })
    }
}

fn devices(tool: &Path, side: &Side) -> io::Result<Value> {
    json(command(tool, side.namespace.as_deref()).args(["devices", "--json"]))
}

/// The first device with an address for which `wanted` is true.
fn interface(devices: &Value, wanted: impl Fn(&str) -> bool) -> Option<Interface> {
    devices.as_array()?.iter().find_map(|device| {
        let gids = device["gids"].as_array()?;
        let address = gids.iter().filter_map(Value::as_str).find(|gid| wanted(gid))?;
        Some(Interface {
            name: device["interface"].as_str()?.to_owned(),
            // Where one interface is selected, its device is the first.
            device: "fairway0".to_owned(),
            address: address.to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn interface_is_the_first_with_a_wanted_address() {
        let devices = serde_json::json!([
            { "interface": "eth0", "name": "fairway0", "gids": ["192.0.2.2", "fd00::2"] },
            { "interface": "lo", "name": "fairway1", "gids": ["127.0.0.1", "::1"] },
        ]);
        let interface = |address: &str| super::interface(&devices, |gid| gid == address);
        assert_eq!(interface("127.0.0.1").expect("lo").name, "lo");
        assert_eq!(interface("192.0.2.2").expect("eth0").address, "192.0.2.2");
        assert_eq!(interface("192.0.2.3"), None);
    }
}
